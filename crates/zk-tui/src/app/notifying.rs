use std::time::Duration;

use super::App;
use crate::inline::Abilities;
use crate::term::notice_sequence;

/// Time without a key after which a person counts as away whose terminal does not tell whether they look at
/// it.
const AWAY_AFTER: Duration = Duration::from_secs(10);

/// Keeps the title of the terminal, and gives the kept one back.
const KEEP_TITLE: &str = "\u{1b}[22;2t";
const RESTORE_TITLE: &str = "\u{1b}[23;2t";

/// The most characters of a title.
const MAX_TITLE_CHARS: usize = 80;

/// The title of the terminal.
impl App {
    /// Has the terminal show a title from now on, with a mark while a run goes on, or a question waits. The one before comes
    /// back when the screen is left.
    pub fn set_title(&mut self, title: &str) {
        if !self.screen.abilities().looks.links {
            // The console of Linux would print it.
            return;
        }
        let mark = match (self.transcript.view().cards.is_empty(), self.has_run()) {
            (false, _) => "? ",
            (true, true) => "◐ ",
            (true, false) => "",
        };
        let title: String = title.chars().filter(|c| !c.is_control()).take(MAX_TITLE_CHARS).collect();
        let title = format!("{mark}{title}");
        if self.output.title.as_ref() == Some(&title) {
            return;
        }
        let keep = if self.output.title.is_none() { KEEP_TITLE } else { "" };
        self.output.pending += &format!("{keep}\u{1b}]2;{title}\u{1b}\\");
        self.output.title = Some(title);
        self.output.is_dirty = true;
    }

    /// The bytes that give the title back.
    pub(super) fn restore_title(&mut self) -> &'static str {
        if self.output.title.take().is_some() { RESTORE_TITLE } else { "" }
    }
}

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
