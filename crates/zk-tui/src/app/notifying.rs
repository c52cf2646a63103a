use std::time::Duration;

use super::App;
use crate::inline::Abilities;
use crate::term::notice_sequence;

/// Time without a key after which a person counts as away whose terminal does not tell whether they look at
/// it.
const AWAY_AFTER: Duration = Duration::from_secs(10);

/// Notices for a person who looks elsewhere.
impl App {
    /// Tells a person who looks elsewhere.
    pub(super) fn notify(&mut self, text: String, now: Duration) {
        match self.is_focused {
            Some(true) => {}
            Some(false) => self.tell(&text),
            None => self.timing.late_notice = Some((now + AWAY_AFTER, text)),
        }
    }

    /// The terminal said whether the person looks at it.
    pub(super) fn set_focused(&mut self, is_focused: bool) {
        self.is_focused = Some(is_focused);
        if let Some((_, text)) = self.timing.late_notice.take().filter(|_| !is_focused) {
            self.tell(&text);
        }
    }

    /// Tells a person who pressed no key.
    pub(super) fn tell_late(&mut self, now: Duration) {
        if let Some((_, text)) = self.timing.late_notice.take_if(|(due, _)| *due <= now) {
            self.tell(&text);
        }
    }

    fn tell(&mut self, text: &str) {
        let Abilities { notices, tmux, .. } = self.screen.abilities();
        self.output.pending += &notice_sequence(*notices, *tmux, text);
        self.output.is_dirty = true;
    }
}
