use super::focus::Aid;
use super::{Action, App};
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
    const NOTHING_TYPED: &str = "nothing is typed: ? lists the keys";
    let word = match key {
        Key::Tab if is_empty => "Tab completes what is typed, and queues it during a run",
        Key::Move { to: Direction::Up, word: true } => "no text waits that could be taken back",
        Key::Move { to: Direction::Up, .. } | Key::Ctrl('p') => "nothing was typed before this",
        Key::Move { to: Direction::Down, .. } | Key::Ctrl('n') => "nothing was typed after this",
        Key::Ctrl('y') | Key::Alt('y') => "nothing was cut that could be put in: Ctrl-K and Ctrl-U cut",
        Key::Ctrl('_') => "there is nothing to undo",
        Key::Alt('q') => "no question waits",
        Key::Tab => "nothing fits what is typed",
        Key::Enter | Key::Back | Key::Delete if is_empty => NOTHING_TYPED,
        Key::Ctrl('a' | 'b' | 'd' | 'e' | 'f' | 'h' | 'k' | 'u' | 'w') | Key::Alt('b' | 'd' | 'f') => {
            return is_empty.then(|| NOTHING_TYPED.to_owned());
        }
        Key::Ctrl(_) | Key::Alt(_) => {
            return Some(format!("{} has no meaning here: ?? lists the keys", describe(key)));
        }
        Key::Move { .. } if is_empty => NOTHING_TYPED,
        _ => return None,
    };
    Some(word.to_owned())
}
