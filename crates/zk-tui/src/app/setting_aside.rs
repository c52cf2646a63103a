use std::time::Duration;

use zk_view::Content;

use super::{App, DOUBLE_PRESS_TIME, messages};
use crate::keys::Key;
use crate::pick::PickerKind;

/// Drafts that were set aside.
impl App {
    /// Shows the draft of another window, and `note` about it, until the person accepts it, clears it or
    /// types.
    pub fn offer_draft(&mut self, text: &str, note: &str) {
        if !self.composer.is_empty() {
            // The text typed so far is never mixed with the offered draft.
            let typed = std::mem::take(&mut self.composer);
            self.composer.set(text);
            self.stash();
            self.composer = typed;
            return;
        }
        self.composer.set(text);
        self.keyboard.offered = Some(note.to_owned());
        self.output.is_dirty = true;
    }

    /// Accepts the draft of another window, or sets it aside if the key starts another text.
    pub(super) fn accept_offer_or_set_aside(&mut self, key: &Key) {
        if matches!(key, Key::Char(_) | Key::Paste(_) | Key::Ctrl('v' | 'y')) {
            self.set_offer_aside();
        } else {
            self.keyboard.offered = None;
        }
    }

    /// Sets the draft of another window aside, unless it was accepted.
    pub(super) fn set_offer_aside(&mut self) {
        if self.keyboard.offered.take().is_some() && !self.composer.is_empty() {
            self.stash();
        }
    }

    /// Sets the draft aside; an empty draft is replaced by the one set aside last.
    pub(super) fn stash_or_restore(&mut self) {
        if !self.composer.is_empty() {
            return self.stash();
        }
        match self.keyboard.stash.pop() {
            Some(draft) => {
                self.composer = draft;
                self.report_draft_change();
            }
            None => self.set_hint(messages::NOTHING_ASIDE),
        }
    }

    fn stash(&mut self) {
        self.keyboard.stash.push(std::mem::take(&mut self.composer));
        self.keyboard.vim.enter_insert_mode();
        self.history.end_recall();
        self.focus.take_list();
        self.set_hint(messages::TEXT_PUT_ASIDE);
        self.report_draft_change();
    }

    /// Handles Escape when nothing is open or running: the second press clears the draft, or opens the picker
    /// of prompts.
    pub(super) fn escape_twice(&mut self, now: Duration) {
        let is_again = self.timing.escaped.take().is_some_and(|at| now < at + DOUBLE_PRESS_TIME);
        let has_draft = !self.composer.is_empty();
        let hint = match (is_again, has_draft) {
            (true, true) => {
                self.clear_draft();
                None
            }
            (true, false) if self.has_prompts() => {
                self.open_picker(PickerKind::Tree);
                None
            }
            (false, true) => Some(messages::ESCAPE_CLEARS),
            (false, false) if self.has_prompts() => Some(messages::ESCAPE_GOES_BACK),
            (_, false) => Some(messages::NOTHING_TO_STOP),
        };
        match hint {
            Some(hint) => self.set_brief_hint(hint, now),
            None => self.clear_hint(),
        }
        if !is_again {
            self.timing.escaped = Some(now);
        }
    }

    /// Shows a hint on the effect of pressing the key again, until another key or a time-out.
    pub(super) fn set_brief_hint(&mut self, hint: &'static str, now: Duration) {
        self.set_hint(hint);
        self.timing.hint_ends = Some(now + DOUBLE_PRESS_TIME);
    }

    pub(super) fn end_brief_hint(&mut self) {
        if self.timing.hint_ends.take().is_some() {
            self.clear_hint();
        }
    }

    /// Clears the draft and adds it to the history.
    pub(super) fn clear_draft(&mut self) {
        self.keyboard.offered = None;
        let text = self.composer.take();
        self.history.push(&text);
        self.report_draft_change();
    }

    fn has_prompts(&self) -> bool {
        self.transcript.view().blocks.iter().any(|block| matches!(block.content, Content::User { .. }))
    }

    /// Replaces a backslash before Enter by a line end; returns false if there is none. A shell command keeps
    /// the backslash.
    pub(super) fn break_line_at_backslash(&mut self) -> bool {
        let before = self.composer.before_caret();
        let slashes = before.len() - before.trim_end_matches('\\').len();
        if slashes.is_multiple_of(2) {
            return false;
        }
        if !self.composer.text().starts_with('!') {
            self.composer.delete_before();
        }
        self.composer.insert("\n");
        self.report_draft_change();
        true
    }
}
