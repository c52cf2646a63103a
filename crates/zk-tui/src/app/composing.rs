use std::time::Duration;

use zk_view::{Content, Intent};

use super::focus::{Aid, Search};
use super::layout::list_room;
use super::{Action, App, DOUBLE_PRESS_TIME, messages};
use crate::edit::{Buffer, Vim};
use crate::inline::Size;
use crate::keys::{Direction, Key};
use crate::pick::PickerKind;
use crate::question::press_buffer;
use crate::row::Row;
use crate::view::{key_columns, key_table};

impl App {
    /// Maps a key by the person's key bindings; `None` if it was handled.
    pub(super) fn apply_keymap(&mut self, key: &Key) -> Option<Key> {
        let key = self.keyboard.keymap.translate(key)?;
        let is_for_text =
            self.keyboard.keymap.is_vim() && self.focus.card().is_none() && self.focus.list().is_none();
        if !is_for_text {
            return Some(key);
        }
        if key == Key::Char('?') && self.keyboard.vim.is_ready() {
            self.shows_keys = true;
            return None;
        }
        self.keyboard.vim.press(&key, &mut self.composer)
    }

    /// Runs the command bound to a key and keeps the draft; returns false if there is none.
    pub(super) fn press_shortcut(&mut self, key: &Key, actions: &mut Vec<Action>) -> bool {
        let Some(line) = self.keyboard.keymap.command(key).map(str::to_owned) else { return false };
        self.hint = None;
        self.run_line(&line, actions);
        true
    }

    /// Runs a line as if typed, and keeps the draft.
    pub(super) fn run_line(&mut self, line: &str, actions: &mut Vec<Action>) {
        let mut command = Buffer::default();
        command.set(line);
        let draft = std::mem::replace(&mut self.composer, command);
        let (vim, recalled) = (self.keyboard.vim.clone(), self.history.recalled());
        self.submit_text(true, actions);
        (self.composer, self.keyboard.vim) = (draft, vim);
        self.history.restore_recall(recalled);
    }

    /// Table of the active key bindings.
    pub(super) fn key_rows(&self, size: Size) -> Vec<Row> {
        if self.keyboard.vim.is_normal() {
            return key_table(&Vim::help(), size.width, list_room(size));
        }
        if self.composer.text() == "?" {
            return key_columns(&self.keyboard.keymap.short_help(), size.width, list_room(size));
        }
        key_table(&self.keyboard.keymap.help(), size.width, list_room(size))
    }

    pub(super) fn press_escape(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.focus.take_list().is_some() || self.focus.end_search() {
            return;
        }
        if self.focus.card_mut().is_some_and(|card| card.hears_escape(now)) {
            self.press_typed(&[Key::Escape], false, now, actions);
            return;
        }
        if self.is_running() {
            actions.push(Action::Stop);
        } else if self.focus.card().is_none() {
            self.escape_twice(now);
        }
    }

    pub(super) fn press_interrupt(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.focus.take_list();
        if self.focus.end_search() {
            return;
        }
        if self.is_running() {
            actions.push(Action::Stop);
        } else if !self.composer.is_empty() {
            // The draft is in the history, where Up finds it.
            self.clear_draft();
        } else if self.timing.interrupted.is_some_and(|at| now < at + DOUBLE_PRESS_TIME) {
            actions.push(Action::Quit);
        } else {
            self.timing.interrupted = Some(now);
            self.set_brief_hint(messages::PRESS_AGAIN_TO_QUIT, now);
        }
    }

    /// Handles a key for the draft.
    pub(super) fn press(&mut self, key: &Key, actions: &mut Vec<Action>) {
        (self.hint, self.timing.escaped) = (None, None);
        let before = self.draft_state(actions);
        self.press_draft(key, actions);
        self.hint_at_idle_key(key, &before, actions);
    }

    fn press_draft(&mut self, key: &Key, actions: &mut Vec<Action>) {
        self.accept_offer_or_set_aside(key);
        self.focus.stop_awaiting();
        let is_prefixed = std::mem::take(&mut self.keyboard.is_prefixed);
        let is_done = match self.focus.aid() {
            Aid::Search(_) => self.press_search(key),
            Aid::Completion(_) => self.press_list(key),
            Aid::None | Aid::Awaited => false,
        };
        if is_done {
            return;
        }
        match key {
            Key::Enter if self.break_line_at_backslash() => {}
            Key::Enter => self.submit_text(true, actions),
            Key::Tab => self.complete_or_queue(actions),
            Key::Ctrl('d') if self.composer.is_empty() => self.quit_on_end_of_input(actions),
            Key::Ctrl('b') if self.composer.is_empty() => self.move_to_background(actions),
            Key::Ctrl('x') => self.keyboard.is_prefixed = true,
            Key::Ctrl('e') if is_prefixed => actions.push(Action::Edit(self.composer.expanded())),
            Key::Ctrl('g') => actions.push(Action::Edit(self.composer.expanded())),
            Key::Ctrl('v') => actions.push(Action::PasteImage),
            Key::Ctrl('s') => self.stash_or_restore(),
            Key::Ctrl('k') if self.composer.is_empty() && self.has_held_texts() => {
                self.drop_last_held(actions)
            }
            Key::Ctrl('r') => {
                self.history.refresh();
                self.focus.replace_aid(Aid::Search(Search::default()));
            }
            Key::Move { to: Direction::Up, word: true } => self.take_back_last_queued(actions),
            // A held-back text is the newest one.
            Key::Move { to: Direction::Up, .. } if self.composer.is_empty() && self.has_held_texts() => {
                self.take_back_last_queued(actions);
            }
            Key::Move { to: Direction::Up, .. } | Key::Ctrl('p') => {
                if !self.composer.move_up()
                    && let Some(text) = self.history.older(&self.composer.expanded()).map(str::to_owned)
                {
                    self.composer.set(&text);
                }
            }
            Key::Move { to: Direction::Down, .. } | Key::Ctrl('n') => {
                if !self.composer.move_down()
                    && let Some(text) = self.history.newer()
                {
                    self.composer.set(&text);
                }
            }
            Key::Paste(text) if image_path(text).is_some() => {
                actions.extend(image_path(text).map(Action::Attach));
            }
            key => {
                self.history.end_recall();
                press_buffer(&mut self.composer, key);
                self.show_completions();
            }
        }
    }

    /// Quits once the host's work is done, but not during a run.
    fn quit_on_end_of_input(&mut self, actions: &mut Vec<Action>) {
        if self.has_run() {
            self.set_hint(messages::STOP_BEFORE_QUIT);
            return;
        }
        if self.is_busy {
            self.set_hint(messages::QUITS_LATER);
        }
        actions.push(Action::Quit);
    }

    /// Handles a key of the history search; returns false if the key ends the search and applies to the found
    /// text.
    fn press_search(&mut self, key: &Key) -> bool {
        let Some(Search { words, skip }) = self.focus.search_mut() else { return false };
        match key {
            Key::Char(c) => {
                words.push(*c);
                *skip = 0;
            }
            Key::Back => {
                words.pop();
                *skip = 0;
            }
            Key::Ctrl('r' | 'p') | Key::Move { to: Direction::Up, .. } => {
                if self.history.find(words, *skip + 1).is_some() {
                    *skip += 1;
                }
            }
            Key::Ctrl('n') | Key::Move { to: Direction::Down, .. } => *skip = skip.saturating_sub(1),
            key => {
                if let Some(found) = self.history.find(words, *skip) {
                    self.composer.set(found);
                }
                self.focus.end_search();
                // Enter only inserts the found text, since the person has not seen all of it.
                return *key == Key::Enter;
            }
        }
        true
    }

    pub(super) fn submit_text(&mut self, steers: bool, actions: &mut Vec<Action>) {
        let is_running = self.is_running();
        if self.composer.text().trim().is_empty() {
            if is_running {
                actions.push(Action::Hurry);
            } else {
                self.send_first_held(actions);
            }
            return;
        }
        if steers && self.keeps_draft_at_question() {
            return;
        }
        if let Some(kind) = PickerKind::of_line(self.composer.text().trim())
            && (kind != PickerKind::Jobs || !self.transcript.view().jobs.is_empty())
        {
            self.composer.take();
            self.focus.take_list();
            self.open_picker(kind);
            return;
        }
        if is_running && self.run_independent_command() {
            return;
        }
        if is_running && (self.host.is_harmless)(self.composer.text().trim()) {
            let text = self.composer.take().trim().to_owned();
            self.keyboard.vim.enter_insert_mode();
            self.focus.take_list();
            self.history.push(&text);
            actions.extend([Action::Remember(text.clone()), Action::Beside(text)]);
            return;
        }
        if is_running && !self.is_busy && (self.host.makes_prompt)(self.composer.text().trim()) {
            let line = self.composer.take().trim().to_owned();
            self.keyboard.vim.enter_insert_mode();
            self.focus.take_list();
            self.history.push(&line);
            actions.extend([Action::Remember(line.clone()), Action::PromptCommand { line, steers }]);
            return;
        }
        // A requested skill is part of a prompt, and a shell command of the person waits in the queue.
        let typed = self.composer.text().trim_start();
        let waits = typed.starts_with('!');
        let leaves = matches!(typed.trim_end(), "exit" | "quit");
        let is_command = (typed.starts_with('/') && !typed.starts_with("/skill:")) || leaves;
        if is_running && (self.is_busy || is_command) {
            let name =
                typed.split_whitespace().next().filter(|_| is_command).unwrap_or("this text").to_owned();
            match self.has_run() {
                true => self.set_hint(messages::works_later(&name)),
                false => self.set_hint(messages::COMMAND_BEFORE_WORKS),
            }
            return;
        }
        let text = self.composer.take().trim().to_owned();
        self.keyboard.vim.enter_insert_mode();
        self.focus.take_list();
        self.history.push(&text);
        actions.push(Action::Remember(text.clone()));
        actions.push(match (is_running, steers) {
            (false, _) => Action::Line(text),
            (true, true) if !waits => Action::Intent(Intent::Steer { text }),
            (true, _) => Action::Intent(Intent::Submit { text }),
        });
    }

    /// Runs a command that does not depend on the run; returns false for any other text.
    fn run_independent_command(&mut self) -> bool {
        match self.composer.text().trim() {
            "/screen full" => self.set_full(true),
            "/screen inline" => self.set_full(false),
            "/copy" => {
                let answer =
                    self.transcript.view().blocks.iter().rev().find_map(|block| match &block.content {
                        Content::Answer { text, .. }
                            if block.agent.is_none() && block.closed && !text.is_empty() =>
                        {
                            Some(text.as_str().to_owned())
                        }
                        _ => None,
                    });
                let said = match answer.map(|answer| self.copy(&answer)) {
                    Some(true) => messages::COPIED,
                    Some(false) => messages::TOO_LONG_TO_COPY,
                    None => messages::NO_ANSWER,
                };
                self.set_hint(said);
            }
            _ => return false,
        }
        let text = self.composer.take();
        self.history.push(text.trim());
        self.focus.take_list();
        true
    }

    /// Moves the foreground command to the background.
    fn move_to_background(&mut self, actions: &mut Vec<Action>) {
        if self.has_run() {
            actions.push(Action::Background);
        } else {
            self.set_hint(messages::NO_COMMAND_RUNS);
        }
    }

    /// Whether texts are held back while no run is active.
    fn has_held_texts(&self) -> bool {
        !self.is_running() && !self.transcript.view().queue.is_empty()
    }

    /// Sends the first held-back text.
    fn send_first_held(&mut self, actions: &mut Vec<Action>) {
        let Some(first) = self.transcript.view().queue.first() else { return };
        let (id, text) = (first.id, first.text.unsanitised().to_owned());
        actions.extend([Action::Intent(Intent::Unqueue { id }), Action::Line(text)]);
    }

    /// Drops the held-back text that came last; the history keeps it.
    fn drop_last_held(&mut self, actions: &mut Vec<Action>) {
        let Some(last) = self.transcript.view().queue.last() else { return };
        let (id, text) = (last.id, last.text.unsanitised().to_owned());
        self.history.push(&text);
        actions.push(Action::Intent(Intent::Unqueue { id }));
        self.set_hint(messages::TEXT_DROPPED);
    }

    /// Takes back the text queued last.
    fn take_back_last_queued(&mut self, actions: &mut Vec<Action>) {
        let Some(last) = self.transcript.view().queue.last() else { return };
        let (id, text) = (last.id, last.text.unsanitised().to_owned());
        if last.steers && self.transcript.view().status.run_ms.is_some() {
            // Only the host knows whether the agent has taken the message from its queue.
            actions.push(Action::Unsteer { id, text });
        } else {
            self.give_back(&text);
            actions.push(Action::Intent(Intent::Unqueue { id }));
        }
    }
}

/// Path of an image, if a pasted text is nothing else. Terminals insert a dropped file so: quoted, with escaped
/// spaces, or as a `file://` address.
fn image_path(text: &str) -> Option<String> {
    let text = text.trim();
    if text.is_empty() || text.len() > 4096 || text.contains('\n') {
        return None;
    }
    let quoted = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    let path = match (quoted, text.strip_prefix("file://")) {
        (Some(path), _) => path.to_owned(),
        (None, Some(address)) => address.replace("%20", " "),
        (None, None) if text.replace("\\ ", "").contains(' ') => return None,
        (None, None) => text.replace("\\ ", " "),
    };
    let (_, kind) = path.rsplit_once('.')?;
    let is_image = ["png", "jpg", "jpeg", "gif", "webp"].iter().any(|known| kind.eq_ignore_ascii_case(known));
    (is_image && !path.contains("://")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::image_path;

    #[test]
    fn the_path_of_a_dropped_image_is_recognised_in_every_form() {
        for (text, expected) in [
            ("/tmp/shot.png", Some("/tmp/shot.png")),
            ("'/tmp/a shot.PNG'\n", Some("/tmp/a shot.PNG")),
            ("/tmp/a\\ shot.jpeg", Some("/tmp/a shot.jpeg")),
            ("file:///tmp/a%20shot.webp", Some("/tmp/a shot.webp")),
            ("look at shot.png", None),
            ("https://example.org/x.png", None),
            ("a.png\nb.png", None),
            ("main.rs", None),
            ("", None),
        ] {
            assert_eq!(image_path(text).as_deref(), expected, "{text}");
        }
    }
}
