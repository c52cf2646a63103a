use super::{Action, App};
use crate::keys::Key;
use crate::pick::{Asked, List, asked};

impl App {
    /// Lists the names that fit what stands before the caret, while a command or a file is typed.
    pub(super) fn list_names(&mut self) {
        let old = self.list.take();
        // Names for what a person types to a shell are listed when they are asked for.
        let is_live = |asked: &Asked| !matches!(asked, Asked::Program | Asked::ShellWord);
        let before = self.composer.before_caret();
        if asked(before).is_some_and(|(asked, _, _)| is_live(&asked)) {
            self.list = List::of(before, old, &self.host.completer);
        }
    }

    /// Whether a key is for the names that are listed.
    pub(super) fn press_list(&mut self, key: &Key) -> bool {
        use crate::keys::Direction::{Down, Up};
        let Some(list) = self.list.as_mut().filter(|list| !list.is_empty()) else { return false };
        match key {
            Key::Move { to: Up, word: false } | Key::Ctrl('p') => list.go(true),
            Key::Move { to: Down, word: false } | Key::Ctrl('n') => list.go(false),
            Key::Enter if list.is_moved() => self.take_choice(),
            Key::Tab => self.take_choice(),
            _ => return false,
        }
        true
    }

    /// Completes what stands before the caret, or queues the text while something runs.
    pub(super) fn tab(&mut self, actions: &mut Vec<Action>) {
        let before = self.composer.before_caret();
        match List::of(before, None, &self.host.completer) {
            Some(list) if !list.is_empty() => {
                let is_only = list.is_only();
                self.list = Some(list);
                if is_only {
                    self.take_choice();
                }
            }
            Some(_) | None if self.is_running() => self.enter_text(false, actions),
            Some(_) | None => self.awaits_names = asked(before).is_some(),
        }
    }

    /// Lists the names that were asked for with a key and not known then.
    pub(super) fn list_awaited_names(&mut self) {
        if self.awaits_names && self.list.is_none() {
            self.list = List::of(self.composer.before_caret(), None, &self.host.completer);
            self.awaits_names = self.list.is_none();
        }
    }

    fn take_choice(&mut self) {
        let Some((from, text)) = self.list.take().and_then(|list| list.choice()) else { return };
        self.composer.replace_from(from, &text);
        self.history.leave();
        // A directory, or the argument of a command, may follow.
        self.list_names();
    }
}
