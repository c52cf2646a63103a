use zk_view::View;

use super::log::Log;
use super::scroll::{Pager, PagerKey, Position};
use crate::keys::{Direction, Key};
use crate::row::{Row, Style, Tone};

/// Style of selected rows, visible without colours too.
const SELECTED: Style = Style { tone: Tone::Cyan, bold: true, underline: true, ..Style::PLAIN };

/// Selection of rows, to copy them.
impl Pager {
    /// Starts a selection with the last visible row.
    pub(super) fn begin_selecting(&mut self, log: &Log, view: &View) {
        let last = self.last_visible_row(log, view);
        self.selected = Some((last, last));
    }

    pub(super) fn press_selecting(&mut self, key: &Key, log: &Log, view: &View) -> PagerKey {
        let page = self.height.saturating_sub(1).max(1);
        match key {
            Key::Escape | Key::Char('v' | 'q') | Key::Ctrl('c') => self.selected = None,
            Key::Move { to: Direction::Up, .. } | Key::Char('k') | Key::Ctrl('p') => {
                self.extend_selection(1, true, log, view)
            }
            Key::Move { to: Direction::Down, .. } | Key::Char('j') | Key::Ctrl('n') => {
                self.extend_selection(1, false, log, view);
            }
            Key::Move { to: Direction::PageUp, .. } | Key::Char('b') => {
                self.extend_selection(page, true, log, view)
            }
            Key::Move { to: Direction::PageDown, .. } | Key::Char(' ' | 'f') => {
                self.extend_selection(page, false, log, view)
            }
            Key::Char('y') | Key::Enter => {
                let Some(text) = self.selected_text(log, view) else { return PagerKey::Done };
                self.selected = None;
                return PagerKey::Copy { text, done: "the lines are copied" };
            }
            _ => {}
        }
        PagerKey::Done
    }

    pub(super) fn selection_hint(&self) -> Option<Row> {
        self.selected.map(|_| Row::of(Style::DIM, "↑↓ select · y copies the lines · Esc selects nothing"))
    }

    /// Applies the selection's style to a row that is selected.
    pub(super) fn marked_if_selected(&self, at: Position, row: &Row) -> Row {
        let is_selected =
            self.selected.is_some_and(|(one, other)| (one.min(other)..=one.max(other)).contains(&at));
        match (is_selected, row.text()) {
            (false, _) => row.clone(),
            (true, text) if text.trim().is_empty() => Row::of(SELECTED, "·"),
            (true, text) => Row::of(SELECTED, &text),
        }
    }

    /// Moves the end of the selection and scrolls to it.
    fn extend_selection(&mut self, rows: usize, back: bool, log: &Log, view: &View) {
        let Some((from, mut to)) = self.selected else { return };
        for _ in 0..rows {
            let next = if back { self.row_before(to, log, view) } else { self.row_after(to, log, view) };
            let Some(next) = next else { break };
            to = next;
        }
        self.selected = Some((from, to));
        let top = self.top.unwrap_or_else(|| self.last_top(log, view));
        if to < top {
            self.set_top(to, log, view);
        }
        while to > self.last_visible_row(log, view) && self.top.is_some() {
            self.scroll_down(1, log, view);
        }
    }

    fn selected_text(&mut self, log: &Log, view: &View) -> Option<String> {
        let (one, other) = self.selected?;
        let (mut at, last) = (one.min(other), one.max(other));
        let mut text: Option<String> = None;
        loop {
            let rows = self.drawer.rows(at.entry, log, view);
            if let Some(row) = rows.get(at.row) {
                text = Some(match text {
                    None => row.text(),
                    // The screen broke this row, not its author, so the rows are joined.
                    Some(line) if row.is_continuation() => line + &row.text(),
                    Some(lines) => format!("{}\n{}", lines.trim_end_matches(' '), row.text()),
                });
            }
            match self.row_after(at, log, view).filter(|next| *next <= last) {
                Some(next) => at = next,
                None => return text.map(|text| text.trim_end().to_owned()),
            }
        }
    }

    fn last_visible_row(&mut self, log: &Log, view: &View) -> Position {
        let mut at = self.top.unwrap_or_else(|| self.last_top(log, view));
        for _ in 1..self.height {
            match self.row_after(at, log, view) {
                Some(next) => at = next,
                None => break,
            }
        }
        at
    }

    /// Position of the next row; `None` at the end.
    fn row_after(&mut self, at: Position, log: &Log, view: &View) -> Option<Position> {
        if at.row + 1 < self.drawer.rows(at.entry, log, view).len() {
            return Some(Position { row: at.row + 1, ..at });
        }
        let entry =
            (at.entry + 1..log.len()).find(|entry| !self.drawer.rows(*entry, log, view).is_empty())?;
        Some(Position { entry, row: 0 })
    }

    /// Position of the row before; `None` at the start.
    fn row_before(&mut self, at: Position, log: &Log, view: &View) -> Option<Position> {
        if let Some(row) = at.row.checked_sub(1) {
            return Some(Position { row, ..at });
        }
        (0..at.entry).rev().find_map(|entry| {
            let row = self.drawer.rows(entry, log, view).len().checked_sub(1)?;
            Some(Position { entry, row })
        })
    }
}
