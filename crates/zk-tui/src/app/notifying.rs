use std::time::Duration;

use zk_view::{Content, sanitise};

use super::App;
use crate::inline::Abilities;
use crate::term::notice_sequence;

/// Time without a key after which the person counts as away, on a terminal without focus reports.
const AWAY_AFTER: Duration = Duration::from_secs(10);

/// Maximum length of the terminal's title, in characters.
const MAX_TITLE_CHARS: usize = 80;

/// Maximum length of the subject of a notice in characters.
const MAX_SUBJECT_CHARS: usize = 60;

/// Appends the subject, the first line of a text, to a notice.
pub(super) fn with_subject(notice: &str, text: &str) -> String {
    let line = sanitise(text.trim().lines().next().unwrap_or_default()).into_owned();
    let mut shown: String = line.chars().take(MAX_SUBJECT_CHARS).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    if shown.is_empty() { notice.to_owned() } else { format!("{notice}: {shown}") }
}

/// Notices for a person who is away.
impl App {
    /// Text of the notification about the end of a run, with the run's prompt.
    pub(super) fn describe_end(&self) -> String {
        let prompt = self.transcript.view().blocks.iter().rev().find_map(|block| match &block.content {
            Content::User { text, .. } => Some(text.as_str().to_owned()),
            _ => None,
        });
        let prompt = prompt.unwrap_or_default();
        with_subject("the run has ended", (self.host.mask)(&prompt).as_deref().unwrap_or(&prompt))
    }

    /// Switches the terminal's title on or off. The title shows the directory, and whether a run or a question
    /// is open.
    pub fn set_titles(&mut self, has_titles: bool) {
        self.output.has_titles = has_titles;
    }

    /// Sends the title to the terminal with the next frame, if it changed.
    pub(super) fn update_title(&mut self) {
        // The Linux console would print the title as text. Terminals that support links also support titles.
        let can_show = self.screen.abilities().looks.links;
        if !self.output.has_titles || !can_show || self.model.directory.is_empty() {
            return;
        }
        let directory = self.model.directory.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/");
        let mark = match (self.transcript.view().cards.is_empty(), self.is_running()) {
            (false, _) => "? ",
            (true, true) => "● ",
            (true, false) => "",
        };
        let title: String =
            sanitise(&format!("{mark}zk · {directory}")).chars().take(MAX_TITLE_CHARS).collect();
        if title != self.output.title {
            self.output.pending += &format!("\u{1b}]2;{title}\u{1b}\\");
            self.output.title = title;
        }
    }

    /// Shows a desktop notice or rings the bell if the person is away.
    pub(super) fn notify(&mut self, text: String, now: Duration) {
        match self.is_focused {
            Some(true) => {}
            Some(false) => self.send_notification(&text),
            None => self.timing.late_notice = Some((now + AWAY_AFTER, text)),
        }
    }

    /// Applies a focus report.
    pub(super) fn set_focused(&mut self, is_focused: bool) {
        self.is_focused = Some(is_focused);
        if let Some((_, text)) = self.timing.late_notice.take().filter(|_| !is_focused) {
            self.send_notification(&text);
        }
    }

    /// Sends the delayed notification if the person has pressed no key since.
    pub(super) fn send_due_notification(&mut self, now: Duration) {
        if let Some((_, text)) = self.timing.late_notice.take_if(|(due, _)| *due <= now) {
            self.send_notification(&text);
        }
    }

    fn send_notification(&mut self, text: &str) {
        let Abilities { notices, tmux, .. } = self.screen.abilities();
        self.output.pending += &notice_sequence(*notices, *tmux, text);
        self.output.is_dirty = true;
    }
}
