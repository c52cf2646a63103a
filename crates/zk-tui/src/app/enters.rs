use std::time::Duration;

use super::{Action, App};
use crate::keys::Key;

/// Pause after Enter that distinguishes a typed Enter from a line end of a paste: nobody types that fast.
const PASTE_PAUSE: Duration = Duration::from_millis(8);

impl App {
    /// Converts Enters inside an unmarked paste to line ends. A final Enter that arrived with or right after
    /// other keys is held back for a moment, since more of the paste may follow.
    pub(super) fn convert_pasted_enters(
        &mut self,
        keys: Vec<Key>,
        is_burst: bool,
        now: Duration,
    ) -> Vec<Key> {
        let is_behind_text = self.timing.text_came.is_some_and(|came| now < came + PASTE_PAUSE);
        let mut settled = self.convert_all_pasted_enters(keys, now);
        if (is_burst || is_behind_text) && settled.last() == Some(&Key::Enter) {
            settled.pop();
            self.timing.held_enter = Some(now);
        }
        settled
    }

    /// Variant of [`settle_enters`](Self::settle_enters) for input that is complete.
    pub(super) fn convert_all_pasted_enters(&mut self, keys: Vec<Key>, now: Duration) -> Vec<Key> {
        let is_text = |key: Option<&Key>| {
            matches!(key, Some(Key::Char(_) | Key::Enter | Key::Newline | Key::Tab | Key::Paste(_)))
        };
        let mut settled = Vec::with_capacity(keys.len() + 1);
        if let Some(held) = self.timing.held_enter.take() {
            let goes_on = now < held + PASTE_PAUSE && is_text(keys.first());
            settled.push(if goes_on { Key::Newline } else { Key::Enter });
        }
        if !keys.is_empty() {
            self.timing.text_came = Some(now);
        }
        let mut rest = keys.into_iter().peekable();
        while let Some(key) = rest.next() {
            match key {
                Key::Enter if is_text(rest.peek()) => settled.push(Key::Newline),
                key => settled.push(key),
            }
        }
        settled
    }

    /// Time at which a held-back Enter takes effect.
    pub(super) fn held_enter_due(&self) -> Option<Duration> {
        self.timing.held_enter.map(|held| held + PASTE_PAUSE)
    }

    /// Handles a held-back Enter that no input followed.
    pub(super) fn press_held_enter(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.held_enter_due().is_some_and(|due| due <= now) {
            self.timing.held_enter = None;
            self.press_typed(&[Key::Enter], false, now, actions);
        }
    }
}
