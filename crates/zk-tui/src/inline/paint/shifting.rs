use std::fmt::Write;

use super::{Caret, Drawn, InlineScreen, move_between_rows, move_up, rewrite};
use crate::row::Row;
use crate::text::columns;

/// Upper bound of the bytes for the movement that makes room for rows.
const MOVEMENT_BYTES: usize = 30;

/// Transition to a frame in which the last live rows are kept and moved together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    /// Number of kept rows at the end.
    kept: usize,
    /// Index of the first kept row among the earlier live rows.
    from: usize,
    /// Index of the first kept row among the rows now drawn.
    to: usize,
}

impl Shift {
    /// Transition from the earlier rows to `closed` and live rows, if it takes fewer bytes than a redraw.
    pub(super) fn between(before: &[Drawn], closed: &[Drawn], live: &[Drawn]) -> Option<Self> {
        let kept = kept_rows(before, live);
        let from = before.len() - kept;
        let to = closed.len() + live.len() - kept;
        if kept == 0 || (closed.is_empty() && from == to) {
            return None;
        }
        let shift = Self { kept, from, to };
        let anew = if closed.is_empty() {
            changed_bytes(before, live)
        } else {
            closed.iter().chain(live).map(|row| row.encoded.len()).sum()
        };
        (shift.byte_count(before, closed, live) < anew).then_some(shift)
    }

    fn byte_count(self, before: &[Drawn], closed: &[Drawn], live: &[Drawn]) -> usize {
        let closed_bytes: usize = closed.iter().map(|row| row.encoded.len()).sum();
        let above = live.len() - self.kept;
        let over = before.get(closed.len()..self.from.min(self.to)).unwrap_or_default();
        let live_bytes = changed_bytes(over, live.get(..above).unwrap_or_default());
        let below = before.get(self.from..).unwrap_or_default();
        let kept_bytes = changed_bytes(below, live.get(above..).unwrap_or_default());
        closed_bytes + live_bytes + kept_bytes + MOVEMENT_BYTES
    }
}

/// Number of equal rows at the end of both lists. One row among them may differ.
fn kept_rows(before: &[Drawn], live: &[Drawn]) -> usize {
    let (mut kept, mut changed) = (0, 0);
    for (at, (old, new)) in before.iter().rev().zip(live.iter().rev()).enumerate() {
        changed = if old == new { 0 } else { changed + 1 };
        match changed {
            0 => kept = at + 1,
            1 => {}
            _ => break,
        }
    }
    kept
}

/// Number of bytes of the rows that differ from the earlier row at the same position.
fn changed_bytes(before: &[Drawn], rows: &[Drawn]) -> usize {
    let is_same = |at: usize, row: &Drawn| before.get(at) == Some(row);
    rows.iter().enumerate().filter(|(at, row)| !is_same(*at, row)).map(|(_, row)| row.encoded.len()).sum()
}

impl InlineScreen {
    /// Closed rows, if each is one row of the terminal and everything fits on it.
    pub(super) fn draw_closed_in_place(&self, closed: &[Row], live: usize) -> Option<Vec<Drawn>> {
        if self.live.is_empty() || closed.len() + live > self.size.live_rows() {
            return None;
        }
        // Trailing spaces are not written.
        let is_one = |row: &&Row| columns(row.text().trim_end_matches(' ')) <= self.size.width;
        let drawn = |row: &Row| Drawn { encoded: self.encode(row), ..Drawn::default() };
        closed.iter().all(|row| is_one(&row)).then(|| closed.iter().map(drawn).collect())
    }

    /// Draws `closed` and `live` rows over the earlier live rows, and moves the kept ones.
    ///
    /// A closed row is always written whole. If the terminal's width has changed unnoticed, live rows may
    /// have been reflowed to more rows: the cursor is never above the first row that is not closed.
    pub(super) fn shift(&mut self, out: &mut String, closed: &[Drawn], live: Vec<Drawn>, shift: Shift) {
        let Shift { from, to, .. } = shift;
        let width = self.size.width;
        let mut at = self.caret.row;
        let rows: Vec<&Drawn> = closed.iter().chain(&live).collect();
        for (row, (old, new)) in self.live.iter().zip(&rows).enumerate().take(from.min(to)) {
            if row < closed.len() {
                move_between_rows(out, at, row);
                at = row;
                let _ = write!(out, "\r\u{1b}[K{}", new.encoded);
            } else if old != *new {
                move_between_rows(out, at, row);
                at = row;
                rewrite(out, old, new, width);
            }
        }
        if to > from {
            // New rows at the bottom; rows above scroll away into the history.
            let last = self.live.len().saturating_sub(1);
            move_between_rows(out, at, last + to - from);
            move_up(out, last + to - from - from);
            let _ = write!(out, "\u{1b}[{}L", to - from);
            for (row, new) in rows.iter().enumerate().take(to).skip(from) {
                out.push_str(if row > from { "\r\n" } else { "\r" });
                out.push_str(&new.encoded);
            }
            at = to - 1;
        } else if from > to {
            move_between_rows(out, at, to);
            at = to;
            let _ = write!(out, "\u{1b}[{}M", from - to);
        }
        let before = self.live.iter().skip(from);
        for (row, (old, new)) in before.zip(rows.iter().skip(to)).enumerate() {
            if old != *new {
                move_between_rows(out, at, to + row);
                at = to + row;
                rewrite(out, old, new, width);
            }
        }
        if at < closed.len() {
            move_between_rows(out, at, closed.len());
            at = closed.len();
        }
        self.caret = Caret { row: at - closed.len(), column: usize::MAX };
        self.live = live;
    }
}
