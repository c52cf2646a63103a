use std::time::Duration;

use zk_view::Intent;

use super::{AGAIN, Action, App};
use crate::keys::{Direction, Key};
use crate::question::press_buffer;

impl App {
    pub(super) fn escape(&mut self, actions: &mut Vec<Action>) {
        if self.list.take().is_some() {
            return;
        }
        if self.search.take().is_none() && self.is_running() {
            actions.push(Action::Stop);
        }
    }

    pub(super) fn interrupt(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.list = None;
        if self.search.take().is_some() {
            return;
        }
        if self.is_running() {
            actions.push(Action::Stop);
        } else if !self.composer.is_empty() {
            // What was typed is not lost: Up brings it back.
            let text = self.composer.take();
            self.history.push(&text);
        } else if self.interrupted.is_some_and(|at| now < at + AGAIN) {
            actions.push(Action::Quit);
        } else {
            self.interrupted = Some(now);
            self.hint = Some("Ctrl-C again, or Ctrl-D, ends the conversation");
        }
    }

    /// One key of the draft.
    pub(super) fn press(&mut self, key: &Key, actions: &mut Vec<Action>) {
        self.hint = None;
        if self.search.is_some() && self.press_search(key) {
            return;
        }
        let is_prefixed = std::mem::take(&mut self.is_prefixed);
        if self.press_list(key) {
            return;
        }
        match key {
            Key::Enter => self.enter_text(true, actions),
            Key::Tab => self.tab(actions),
            Key::Ctrl('d') if self.composer.is_empty() => {
                if !self.is_running() {
                    actions.push(Action::Quit);
                }
            }
            Key::Ctrl('x') => self.is_prefixed = true,
            Key::Ctrl('e') if is_prefixed => actions.push(Action::Edit(self.composer.expanded())),
            Key::Ctrl('g') => actions.push(Action::Edit(self.composer.expanded())),
            Key::Ctrl('r') => self.search = Some((String::new(), 0)),
            Key::Move { to: Direction::Up, word: true } => self.take_back(actions),
            Key::Move { to: Direction::Up, .. } | Key::Ctrl('p') => {
                if !self.composer.up()
                    && let Some(text) = self.history.older(&self.composer.expanded()).map(str::to_owned)
                {
                    self.composer.set(&text);
                }
            }
            Key::Move { to: Direction::Down, .. } | Key::Ctrl('n') => {
                if !self.composer.down()
                    && let Some(text) = self.history.newer()
                {
                    self.composer.set(&text);
                }
            }
            key => {
                self.history.leave();
                press_buffer(&mut self.composer, key);
                self.list_names();
            }
        }
    }

    /// A key of a search; false if it ends the search and is for the text that was found.
    fn press_search(&mut self, key: &Key) -> bool {
        let Some((words, skip)) = &mut self.search else { return false };
        match key {
            Key::Char(c) => words.push(*c),
            Key::Back => drop(words.pop()),
            Key::Ctrl('r') if self.history.find(words, *skip + 1).is_some() => *skip += 1,
            Key::Ctrl('r') => {}
            key => {
                if let Some(found) = self.history.find(words, *skip) {
                    self.composer.set(found);
                }
                self.search = None;
                // Enter shows what was found first: nobody sends what they did not see whole.
                return *key == Key::Enter;
            }
        }
        true
    }

    pub(super) fn enter_text(&mut self, steers: bool, actions: &mut Vec<Action>) {
        let is_running = self.is_running();
        if self.composer.text().trim().is_empty() {
            if is_running {
                actions.push(Action::Hurry);
            }
            return;
        }
        if is_running && (self.is_busy || self.composer.text().starts_with(['/', '!'])) {
            self.hint = Some("commands wait for the end of the run: Esc stops it");
            return;
        }
        let text = self.composer.take().trim().to_owned();
        self.list = None;
        self.history.push(&text);
        actions.push(Action::Remember(text.clone()));
        actions.push(match (is_running, steers) {
            (false, _) => Action::Line(text),
            (true, true) => Action::Intent(Intent::Steer { text }),
            (true, false) => Action::Intent(Intent::Submit { text }),
        });
    }

    /// Takes the text back that was queued last.
    fn take_back(&mut self, actions: &mut Vec<Action>) {
        let Some(last) = self.transcript.view().queue.last() else { return };
        let (id, text) = (last.id, last.text.unsanitised().to_owned());
        self.give_back(&text);
        actions.push(Action::Intent(Intent::Unqueue { id }));
    }
}
