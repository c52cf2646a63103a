use std::time::Duration;

use super::App;
use super::layout::live_rows;
use super::state::{Host, Reading};
use crate::full::{ENTER, FullScreen, LEAVE, Pager, PagerKey, copy_sequence};
use crate::inline::Caret;
use crate::keys::{Direction, Key};
use crate::row::{Row, Style};

/// The conversation on the alternate screen.
impl App {
    /// Switches between the alternate screen and the inline one. Rows closed on the alternate screen are
    /// printed after leaving it.
    pub fn set_full(&mut self, is_full: bool) {
        self.alternate.is_full = is_full;
        self.end_reading();
        self.output.is_dirty = true;
    }

    /// Opens the pager on a conversation. The next key is for the pager.
    pub(super) fn open_pager(&mut self, reading: Reading) {
        self.alternate.reading = reading;
        let size = self.screen.size();
        let Host { mask, renderers, .. } = &self.host;
        let new = || Pager::new(size.width, *mask, renderers.clone());
        let pager = self.alternate.pager.get_or_insert_with(new);
        pager.set_height(size.height.saturating_sub(1));
    }

    /// Whether the alternate screen is in use, or is to be with the next frame.
    #[must_use]
    pub fn is_alternate(&self) -> bool {
        !self.output.is_left && (self.alternate.is_full || self.alternate.is_paging())
    }

    /// Whether the terminal is on the alternate screen after the bytes written so far.
    #[must_use]
    pub fn is_drawn_alternate(&self) -> bool {
        self.alternate.screen.is_some()
    }

    /// Copies a text to the terminal's clipboard with the next frame. Returns false if the text is too long.
    pub fn copy(&mut self, text: &str) -> bool {
        let copy = copy_sequence(text, self.screen.abilities().tmux);
        self.output.is_dirty = true;
        self.output.pending.extend(copy.as_deref());
        copy.is_some()
    }

    /// Bytes that switch between the alternate screen and the inline one, if necessary.
    pub(super) fn switch_screens(&mut self) -> String {
        match (self.is_alternate(), &self.alternate.screen) {
            (true, None) => {
                let closed = self.transcript.take_closed(usize::MAX);
                let closed = self.masked(closed);
                let out = self.screen.frame(&closed, &[], Some(Caret::default())) + &self.screen.clear();
                self.alternate.screen = Some(FullScreen::default());
                out + ENTER
            }
            (false, Some(_)) => {
                self.alternate.pager = None;
                self.leave_alternate()
            }
            (false, None) => {
                self.alternate.pager = None;
                String::new()
            }
            (true, Some(_)) => String::new(),
        }
    }

    pub(super) fn leave_alternate(&mut self) -> String {
        match self.alternate.screen.take() {
            Some(_) => format!("{LEAVE}\u{1b}[?25h"),
            None => String::new(),
        }
    }

    pub(super) fn resize_alternate(&mut self) {
        let width = self.screen.size().width;
        if let Some(screen) = &mut self.alternate.screen {
            screen.forget();
        }
        if let Some(pager) = &mut self.alternate.pager {
            pager.set_width(width);
        }
    }

    /// Starts the pager over for another conversation.
    pub(super) fn restart_pager(&mut self) {
        let (size, mask, renderers) = (self.screen.size(), self.host.mask, self.host.renderers.clone());
        if let Some(pager) = &mut self.alternate.pager {
            *pager = Pager::new(size.width, mask, renderers);
            pager.set_height(size.height.saturating_sub(1));
        }
    }

    /// The bytes of a frame of the alternate screen.
    pub(super) fn alternate_frame(&mut self) -> String {
        let Some(mut screen) = self.alternate.screen.take() else { return String::new() };
        let mask = self.host.mask;
        let renderers = self.host.renderers.clone();
        let width = self.screen.size().width;
        let mut pager = self.alternate.pager.take().unwrap_or_else(|| Pager::new(width, mask, renderers));
        let size = self.screen.size();
        let (below, caret) = if self.alternate.is_paging() {
            let waits = (!self.transcript.view().cards.is_empty()).then_some("a question waits: q");
            (vec![self.masked_row(pager.last_row(waits)).clipped(size.width)], None)
        } else {
            let mut parts = self.parts(size);
            parts.queue = self.masked(parts.queue);
            parts.status = parts.status.map(|row| self.masked_row(row));
            if !pager.is_at_end() {
                parts.queue.insert(0, Row::of(Style::DIM, "▼ more below · PgDn"));
            }
            live_rows(&parts, size)
        };
        let height = size.height.saturating_sub(below.len());
        let mut rows = match self.agent_log_and_view() {
            Some((log, view)) => pager.rows(height, &log, &view),
            None => pager.rows(height, self.transcript.log(), self.transcript.view()),
        };
        rows.resize(height, Row::default());
        rows.extend(below);
        let caret = caret.map(|caret| Caret {
            row: (height + caret.row).min(size.height.saturating_sub(1)),
            column: caret.column.min(size.width.saturating_sub(1)),
        });
        let frame = screen.frame(&rows, caret, size, self.screen.abilities());
        (self.alternate.screen, self.alternate.pager) = (Some(screen), Some(pager));
        frame
    }

    /// Ends the reading mode of the pager. On the full screen the pager then shows the main conversation.
    fn end_reading(&mut self) {
        if let Reading::Agent(_) = std::mem::take(&mut self.alternate.reading) {
            self.restart_pager();
        }
    }

    /// Handles a key in the pager.
    pub(super) fn press_pager(&mut self, key: &Key, now: Duration) {
        let pages = self.agent_log_and_view();
        let Some(pager) = &mut self.alternate.pager else { return };
        let (log, view) = match &pages {
            Some((log, view)) => (log, view),
            None => (self.transcript.log(), self.transcript.view()),
        };
        match pager.press(key, log, view) {
            PagerKey::Done => {}
            PagerKey::Leave => {
                pager.follow_end();
                self.end_reading();
                // Keys meant for the pager must not answer a question.
                if let Some(card) = self.focus.card_mut() {
                    let size = self.screen.size();
                    card.redrawn(size.width, now);
                }
            }
            PagerKey::Copy { text, done } => {
                let said = if self.copy(&text) { done } else { "too long for the clipboard of a terminal" };
                if let Some(pager) = &mut self.alternate.pager {
                    pager.show_message(said);
                }
            }
        }
    }

    /// Scrolls the full screen; false if a key does not.
    pub(super) fn press_full_screen(&mut self, key: &Key) -> bool {
        let page = self.screen.size().height / 2;
        let Some(pager) = &mut self.alternate.pager else { return false };
        let (log, view) = (self.transcript.log(), self.transcript.view());
        let has_card = self.focus.card().is_some();
        match key {
            Key::Wheel { up } => pager.turn_wheel(*up, log, view),
            Key::Move { to: Direction::PageUp, .. } if !has_card => pager.scroll_up(page, log, view),
            Key::Move { to: Direction::PageDown, .. } if !has_card => pager.scroll_down(page, log, view),
            Key::Enter => {
                pager.follow_end();
                return false;
            }
            _ => return false,
        }
        true
    }
}
