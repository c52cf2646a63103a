use std::time::Duration;

use super::{Action, App};
use crate::keys::Key;

/// How soon more has to come behind Enter for it to be a line end of a paste: nobody types that fast.
const PASTING: Duration = Duration::from_millis(8);

impl App {
    /// Makes line ends of the Enters of a paste that the terminal does not mark. One at the end of several keys that came
    /// together is held back for a moment: more of the paste may come.
    pub(super) fn settle_enters(&mut self, keys: Vec<Key>, now: Duration) -> Vec<Key> {
        let is_text = |key: Option<&Key>| {
            matches!(key, Some(Key::Char(_) | Key::Enter | Key::Newline | Key::Tab | Key::Paste(_)))
        };
        let mut settled = Vec::with_capacity(keys.len() + 1);
        if let Some(held) = self.held_enter.take() {
            let goes_on = now < held + PASTING && is_text(keys.first());
            settled.push(if goes_on { Key::Newline } else { Key::Enter });
        }
        let count = keys.len();
        let mut rest = keys.into_iter().peekable();
        while let Some(key) = rest.next() {
            match key {
                Key::Enter if is_text(rest.peek()) => settled.push(Key::Newline),
                Key::Enter if count > 1 && rest.peek().is_none() => self.held_enter = Some(now),
                key => settled.push(key),
            }
        }
        settled
    }

    /// When an Enter that is held back counts.
    pub(super) fn enter_due(&self) -> Option<Duration> {
        self.held_enter.map(|held| held + PASTING)
    }

    /// Presses an Enter behind which nothing came.
    pub(super) fn press_held_enter(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.enter_due().is_some_and(|due| due <= now) {
            self.held_enter = None;
            self.press_typed(&[Key::Enter], now, actions);
        }
    }
}
