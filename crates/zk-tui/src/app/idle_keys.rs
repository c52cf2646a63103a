use super::focus::Aid;
use super::{Action, App, messages};
use crate::keys::{Direction, Key, describe};

/// State of the draft, to detect whether a key changed anything.
#[derive(PartialEq)]
pub(super) struct DraftState {
    text: String,
    caret: usize,
    actions: usize,
}

/// Hints on keys that have no effect.
impl App {
    pub(super) fn draft_state(&self, actions: &[Action]) -> DraftState {
        let caret = self.composer.before_caret().len();
        DraftState { text: self.composer.text().to_owned(), caret, actions: actions.len() }
    }

    /// Shows a hint on a key that changed nothing since `before`.
    pub(super) fn hint_at_idle_key(&mut self, key: &Key, before: &DraftState, actions: &[Action]) {
        let is_answered = self.hint.is_some()
            || self.keyboard.is_prefixed
            || !matches!(self.focus.aid(), Aid::None)
            || self.draft_state(actions) != *before;
        if is_answered {
            return;
        }
        if let Some(word) = idle_key_hint(key, self.composer.is_empty()) {
            self.set_hint(word);
        }
    }
}

/// Hint on a key that had no effect; `None` for a movement that stopped at an end of the text.
fn idle_key_hint(key: &Key, is_empty: bool) -> Option<String> {
    let word = match key {
        Key::Tab if is_empty => messages::TAB_AT_NOTHING,
        Key::Move { to: Direction::Up, word: true } => messages::NOTHING_HELD,
        Key::Move { to: Direction::Up, .. } | Key::Ctrl('p') => messages::NOTHING_BEFORE,
        Key::Move { to: Direction::Down, .. } | Key::Ctrl('n') => messages::NOTHING_AFTER,
        Key::Ctrl('y') | Key::Alt('y') => messages::NOTHING_CUT,
        Key::Ctrl('_') => messages::NOTHING_TO_UNDO,
        Key::Alt('q') => messages::NO_QUESTION,
        Key::Tab => messages::NOTHING_FITS,
        Key::Enter | Key::Back | Key::Delete if is_empty => messages::NOTHING_TYPED,
        Key::Ctrl('a' | 'b' | 'd' | 'e' | 'f' | 'h' | 'k' | 'u' | 'w') | Key::Alt('b' | 'd' | 'f') => {
            return is_empty.then(|| messages::NOTHING_TYPED.to_owned());
        }
        Key::Ctrl(_) | Key::Alt(_) => {
            return Some(messages::no_meaning(&describe(key)));
        }
        Key::Move { .. } if is_empty => messages::NOTHING_TYPED,
        _ => return None,
    };
    Some(word.to_owned())
}
