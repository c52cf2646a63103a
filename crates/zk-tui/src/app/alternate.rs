use std::time::Duration;

use super::App;
use crate::keys::{Direction, Key};
use crate::layout::live_rows;
use crate::pager::{Pager, PagerKey, copy_sequence};
use crate::paint::Caret;
use crate::paint_full::{ENTER, FullScreen, LEAVE};
use crate::row::Row;
use crate::style::Style;

/// What is drawn on the alternate screen.
#[derive(Debug)]
pub(super) struct Alternate {
    screen: FullScreen,
    pager: Pager,
}

impl App {
    /// Draws the conversation on the alternate screen from now on, or below what the terminal shows already. What closed
    /// meanwhile is printed there when this one is left.
    pub fn set_full(&mut self, is_full: bool) {
        (self.is_full, self.is_paging) = (is_full, false);
        self.is_dirty = true;
    }

    /// Whether the alternate screen is in use, or is to be with the next frame.
    #[must_use]
    pub fn is_alternate(&self) -> bool {
        !self.is_left && (self.is_full || self.is_paging)
    }

    /// Whether the bytes that were given so far leave the alternate screen in use.
    #[must_use]
    pub fn is_drawn_alternate(&self) -> bool {
        self.alternate.is_some()
    }

    /// Puts a text into the clipboard of the terminal, with the next frame. False if it is too long for that.
    pub fn copy(&mut self, text: &str) -> bool {
        let copy = copy_sequence(text, self.screen.abilities().tmux);
        self.is_dirty = true;
        self.pending.extend(copy.as_deref());
        copy.is_some()
    }

    /// The bytes that go to the screen that is wanted, if another one is there.
    pub(super) fn change_screens(&mut self) -> String {
        match (self.is_alternate(), &self.alternate) {
            (true, None) => {
                let closed = self.transcript.take_closed(usize::MAX);
                let closed = self.masked(closed);
                let out = self.screen.frame(&closed, &[], Some(Caret::default())) + &self.screen.clear();
                let pager = Pager::new(self.screen.size().width, self.mask);
                self.alternate = Some(Alternate { screen: FullScreen::default(), pager });
                out + ENTER
            }
            (false, Some(_)) => self.leave_alternate(),
            (true, Some(_)) | (false, None) => String::new(),
        }
    }

    pub(super) fn leave_alternate(&mut self) -> String {
        match self.alternate.take() {
            Some(_) => format!("{LEAVE}\u{1b}[?25h"),
            None => String::new(),
        }
    }

    pub(super) fn resize_alternate(&mut self) {
        let width = self.screen.size().width;
        if let Some(Alternate { screen, pager }) = &mut self.alternate {
            screen.forget();
            pager.set_width(width);
        }
    }

    /// Another conversation is shown from now on.
    pub(super) fn renew_pager(&mut self) {
        let (width, mask) = (self.screen.size().width, self.mask);
        if let Some(alternate) = &mut self.alternate {
            alternate.pager = Pager::new(width, mask);
        }
    }

    /// The bytes of a frame of the alternate screen.
    pub(super) fn alternate_frame(&mut self) -> String {
        let Some(Alternate { mut screen, mut pager }) = self.alternate.take() else { return String::new() };
        let size = self.screen.size();
        let (below, caret) = if self.is_paging {
            let waits = (!self.transcript.view().cards.is_empty()).then_some("a question waits: q");
            (vec![self.masked_row(pager.hint(waits)).clipped(size.width)], None)
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
        let mut rows = match self.agent_pages() {
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
        self.alternate = Some(Alternate { screen, pager });
        frame
    }

    /// A key on the alternate screen; false if it is not for what is scrolled there.
    pub(super) fn press_alternate(&mut self, key: &Key, now: Duration) -> bool {
        let page = self.screen.size().height / 2;
        let pages = self.agent_pages();
        let Some(Alternate { pager, .. }) = &mut self.alternate else { return false };
        let (log, view) = match &pages {
            Some((log, view)) => (log, view),
            None => (self.transcript.log(), self.transcript.view()),
        };
        if self.is_paging {
            match pager.press(key, log, view) {
                PagerKey::Done => {}
                PagerKey::Leave => {
                    pager.follow();
                    self.is_paging = false;
                    if self.agent.take().is_some() {
                        self.renew_pager();
                    }
                    // What a person turns back to is not answered by keys that were meant for the pager.
                    if let Some(card) = &mut self.card {
                        let size = self.screen.size();
                        card.redrawn(size.width, now);
                    }
                }
                PagerKey::Copy(text) => {
                    if !self.copy(&text) {
                        self.hint = Some("too long for the clipboard of a terminal");
                    }
                }
            }
            return true;
        }
        let has_card = self.card.is_some();
        match key {
            Key::Move { to: Direction::PageUp, .. } if !has_card => pager.up(page, log, view),
            Key::Move { to: Direction::PageDown, .. } if !has_card => pager.down(page, log, view),
            Key::Enter => {
                pager.follow();
                return false;
            }
            _ => return false,
        }
        true
    }
}
