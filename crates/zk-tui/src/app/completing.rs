use super::focus::Aid;
use super::{Action, App};
use crate::keys::Key;
use crate::pick::{Asked, List, asked};

impl App {
    /// Lists completions for the text before the caret, while a command or a file is typed.
    pub(super) fn list_names(&mut self) {
        let old = self.focus.take_list();
        let list = self.is_live().then(|| List::of(self.composer.before_caret(), old, &self.host.completer));
        if let Some(list) = list.flatten() {
            self.focus.replace_aid(Aid::Completion(list));
        }
    }

    /// Updates the listed completions, including ones requested before they were known.
    pub(super) fn list_names_anew(&mut self) {
        let (is_awaited, old) = match self.focus.replace_aid(Aid::None) {
            Aid::Awaited => (true, None),
            // Other lists may have new names.
            Aid::Completion(list) => (false, Some(list).filter(List::is_of_files)),
            Aid::None | Aid::Search(_) => (false, None),
        };
        let list = (is_awaited || self.is_live())
            .then(|| List::of(self.composer.before_caret(), old, &self.host.completer));
        match list.flatten() {
            Some(list) => self.focus.replace_aid(Aid::Completion(list)),
            None if is_awaited => self.focus.replace_aid(Aid::Awaited),
            None => Aid::None,
        };
    }

    /// Whether completions are listed without a key: not for words of a shell command.
    fn is_live(&self) -> bool {
        asked(self.composer.before_caret())
            .is_some_and(|(asked, _, _)| !matches!(asked, Asked::Program | Asked::ShellWord))
    }

    /// Handles a key for the list of completions; returns whether it was one.
    pub(super) fn press_list(&mut self, key: &Key) -> bool {
        use crate::keys::Direction::{Down, Up};
        let Some(list) = self.focus.list_mut().filter(|list| !list.is_empty()) else { return false };
        match key {
            Key::Move { to: Up, word: false } | Key::Ctrl('p') => list.go(true, &self.host.completer),
            Key::Move { to: Down, word: false } | Key::Ctrl('n') => list.go(false, &self.host.completer),
            Key::Enter if list.takes_enter() => return self.enter_choice(),
            Key::Tab => self.take_choice(),
            _ => return false,
        }
        true
    }

    /// Inserts the chosen completion; returns false for a complete command, which runs.
    fn enter_choice(&mut self) -> bool {
        let Some(line) = self.focus.list().and_then(List::line) else {
            self.take_choice();
            return true;
        };
        self.composer.set(&line);
        self.focus.take_list();
        false
    }

    /// Completes the word before the caret, or queues the text during a run.
    pub(super) fn tab(&mut self, actions: &mut Vec<Action>) {
        let before = self.composer.before_caret();
        match List::of(before, None, &self.host.completer) {
            Some(list) if !list.is_empty() => {
                let is_only = list.is_only();
                self.focus.replace_aid(Aid::Completion(list));
                if is_only {
                    self.take_choice();
                }
            }
            Some(_) | None if self.is_running() => self.enter_text(false, actions),
            // Automatic completions are awaited anyway.
            Some(_) | None if asked(before).is_some() && !self.is_live() => {
                self.focus.replace_aid(Aid::Awaited);
            }
            Some(_) | None => {}
        }
    }

    fn take_choice(&mut self) {
        let Some((from, text)) = self.focus.take_list().and_then(|list| list.choice()) else { return };
        self.composer.replace_from(from, &text);
        self.history.leave();
        // A directory, or the argument of a command, may follow.
        self.list_names();
    }
}
