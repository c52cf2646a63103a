use super::focus::Aid;
use super::{Action, App};
use crate::keys::Key;
use crate::pick::{Asked, List, completion_request};

impl App {
    /// Lists completions for the text before the caret, while a command or a file is typed.
    pub(super) fn show_completions(&mut self) {
        let old = self.focus.take_list();
        let list = self
            .completes_automatically()
            .then(|| List::of(self.composer.before_caret(), old, &self.host.completer));
        if let Some(list) = list.flatten() {
            self.focus.replace_aid(Aid::Completion(Box::new(list)));
        }
    }

    /// Updates the shown completions, and shows requested ones that have arrived.
    pub(super) fn update_completions(&mut self) {
        let (is_awaited, old) = match self.focus.replace_aid(Aid::None) {
            Aid::Awaited => (true, None),
            // The names of other lists may have changed.
            Aid::Completion(list) => (false, Some(*list).filter(List::is_of_files)),
            Aid::None | Aid::Search(_) => (false, None),
        };
        let list = (is_awaited || self.completes_automatically())
            .then(|| List::of(self.composer.before_caret(), old, &self.host.completer));
        match list.flatten() {
            Some(list) => self.focus.replace_aid(Aid::Completion(Box::new(list))),
            None if is_awaited => self.focus.replace_aid(Aid::Awaited),
            None => Aid::None,
        };
    }

    /// Whether completions are shown without a key press: not in a shell command.
    fn completes_automatically(&self) -> bool {
        completion_request(self.composer.before_caret())
            .is_some_and(|(asked, _, _)| !matches!(asked, Asked::Program | Asked::ShellWord))
    }

    /// Handles a key for the list of completions; returns false if the key is not for the list.
    pub(super) fn press_list(&mut self, key: &Key) -> bool {
        use crate::keys::Direction::{Down, Up};
        let Some(list) = self.focus.list_mut().filter(|list| !list.is_empty()) else { return false };
        match key {
            Key::Move { to: Up, word: false } | Key::Ctrl('p') => {
                list.move_selection(true, &self.host.completer)
            }
            Key::Move { to: Down, word: false } | Key::Ctrl('n') => {
                list.move_selection(false, &self.host.completer)
            }
            Key::Enter if list.takes_enter() => return self.insert_choice_on_enter(),
            Key::Tab => self.insert_choice(),
            _ => return false,
        }
        true
    }

    /// Inserts the chosen completion on Enter. Returns false if the command is complete, so that Enter runs it.
    fn insert_choice_on_enter(&mut self) -> bool {
        let Some(line) = self.focus.list().and_then(List::runnable_line) else {
            self.insert_choice();
            return true;
        };
        self.composer.set(&line);
        self.focus.take_list();
        false
    }

    /// Completes the word before the caret, or queues the text during a run.
    pub(super) fn complete_or_queue(&mut self, actions: &mut Vec<Action>) {
        let before = self.composer.before_caret();
        match List::of(before, None, &self.host.completer) {
            Some(list) if !list.is_empty() => {
                let is_only = list.has_one_match();
                self.focus.replace_aid(Aid::Completion(Box::new(list)));
                if is_only {
                    self.insert_choice();
                }
            }
            Some(_) | None if self.is_running() => self.submit_text(false, actions),
            // Automatic completions appear anyway, so they need no wait.
            Some(_) | None if completion_request(before).is_some() && !self.completes_automatically() => {
                self.focus.replace_aid(Aid::Awaited);
            }
            Some(_) | None => {}
        }
    }

    fn insert_choice(&mut self) {
        let Some((from, text)) = self.focus.take_list().and_then(|list| list.replacement()) else { return };
        self.composer.replace_from(from, &text);
        self.history.end_recall();
        // A path below the directory, or an argument of the command, may follow.
        self.show_completions();
    }
}
