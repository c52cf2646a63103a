//! A small terminal in memory that breaks its lines anew when its width changes, as most do.
//!
//! The terminal knows what the inline screen sends and fails on anything else.

use zk_tui::Size;

use crate::emulator::BEFORE;

/// Line as written, before wrapping.
type Line = Vec<String>;

/// Handling of rows that no longer fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reflows {
    /// Rows at the top scroll away for good.
    Away,
    /// Like tmux: rows below the cursor are lost, rows at the top come back when there is room.
    Back,
}

pub(crate) struct Reflowing {
    size: Size,
    reflows: Reflows,
    lines: Vec<Line>,
    /// The line and the cell of the cursor.
    line: usize,
    cell: usize,
    /// Rows above the first row of the screen.
    top: usize,
    saved: (usize, usize),
    /// Whether the cell before the cursor is the last of its row, with the cursor on it.
    is_pending: bool,
    is_alternate: bool,
}

impl Reflowing {
    pub(crate) fn new(size: Size, reflows: Reflows) -> Self {
        let lines = vec![BEFORE.chars().map(String::from).collect(), Line::new()];
        Self {
            size,
            reflows,
            lines,
            line: 1,
            cell: 0,
            top: 0,
            saved: (0, 0),
            is_pending: false,
            is_alternate: false,
        }
    }

    /// Rows that a line takes.
    fn height(&self, line: &Line) -> usize {
        line.len().div_ceil(self.size.width).max(1)
    }

    /// Rows above a line.
    fn above(&self, line: usize) -> usize {
        self.lines.iter().take(line).map(|line| self.height(line)).sum()
    }

    /// The row of the cursor, from the first of all.
    fn row(&self) -> usize {
        let within = if self.is_pending { self.cell.saturating_sub(1) } else { self.cell } / self.size.width;
        self.above(self.line) + within
    }

    /// The line, and the first of its cells, of a row.
    fn at(&mut self, row: usize) -> (usize, usize) {
        let mut above = 0;
        for (at, line) in self.lines.iter().enumerate() {
            let height = self.height(line);
            if row < above + height {
                return (at, (row - above) * self.size.width);
            }
            above += height;
        }
        while above <= row {
            self.lines.push(Line::new());
            above += 1;
        }
        (self.lines.len() - 1, 0)
    }

    fn column(&self) -> usize {
        if self.is_pending { self.size.width - 1 } else { self.cell % self.size.width }
    }

    fn go(&mut self, row: usize, column: usize) {
        let (line, first) = self.at(row);
        (self.line, self.cell, self.is_pending) = (line, first + column.min(self.size.width - 1), false);
    }

    fn scroll(&mut self) {
        self.top = self.top.max((self.row() + 1).saturating_sub(self.size.height));
    }

    pub(crate) fn size(&self) -> Size {
        self.size
    }

    pub(crate) fn resize(&mut self, size: Size) {
        if self.reflows == Reflows::Back && size.height < self.size.height {
            self.drop_below(self.size.height - size.height);
        }
        // After a resize the viewport stays as near to the end of the buffer as possible.
        self.size = size;
        let is_at_end = self.cell == self.lines[self.line].len();
        self.is_pending = is_at_end && self.cell > 0 && self.cell.is_multiple_of(size.width);
        self.scroll();
        let rows = self.above(self.lines.len());
        self.top = self.top.min(rows.saturating_sub(1)).max((self.row() + 1).saturating_sub(size.height));
        self.top = self.top.min(self.row());
        if self.reflows == Reflows::Back {
            self.top = self.top.min(rows.saturating_sub(size.height));
        }
    }

    /// Removes rows below the cursor's.
    fn drop_below(&mut self, count: usize) {
        let last = self.above(self.lines.len()).max(self.row() + 1) - 1;
        let below = last - self.row();
        self.cut_rows(count.min(below));
    }

    fn put(&mut self, grapheme: &str, columns: usize) {
        let width = self.size.width;
        if self.is_pending {
            // The line continues in the next row.
            self.is_pending = false;
        }
        if columns == 2 && self.cell % width == width - 1 {
            self.write_cell(" ");
        }
        for part in 0..columns.max(1) {
            self.write_cell(if part == 0 { grapheme } else { "" });
        }
        self.is_pending = self.cell.is_multiple_of(width);
        self.scroll();
    }

    fn write_cell(&mut self, text: &str) {
        let cell = self.cell;
        let line = &mut self.lines[self.line];
        while line.len() <= cell {
            line.push(" ".to_owned());
        }
        line[cell] = text.to_owned();
        self.cell += 1;
    }

    fn control(&mut self, parameters: &str, last: char) {
        let number = parameters.split(';').next().and_then(|text| text.parse::<usize>().ok());
        let times = number.unwrap_or(1).max(1);
        let (row, column) = (self.row(), self.column());
        match last {
            'A' => self.go(row.saturating_sub(times).max(self.top), column),
            'B' => self.go((row + times).min(self.top + self.size.height - 1), column),
            'C' => self.go(row, column + times),
            'K' => self.erase_line(),
            'J' => {
                self.erase_line();
                let (line, cell) = (self.line, self.cell);
                let keep = cell - cell % self.size.width + self.size.width;
                self.lines[line].truncate(keep.max(1));
                self.lines.truncate(line + 1);
            }
            'L' => self.insert_rows(times),
            'M' => self.delete_rows(times),
            'm' => {}
            't' | 'c' => assert!(matches!(parameters, "18" | ""), "{parameters}{last}"),
            'h' | 'l' => match parameters {
                "?25" | "?2026" | "?1007" | "?1000" | "?1006" => {}
                "?1049" => self.is_alternate = last == 'h',
                other => panic!("mode {other}"),
            },
            'u' if parameters.starts_with(['<', '>']) => {}
            other => panic!("a sequence that the inline screen must not send: {parameters}{other}"),
        }
    }

    /// Makes the cursor's row the first of its line.
    fn split_line(&mut self) {
        let row = self.row();
        let (line, first) = self.at(row);
        if first > 0 {
            let rest = self.lines[line].split_off(first);
            self.lines.insert(line + 1, rest);
        }
        self.go(row, 0);
    }

    /// Inserts rows at the cursor's; rows beyond the bottom are lost.
    fn insert_rows(&mut self, count: usize) {
        self.split_line();
        let (line, bottom) = (self.line, self.top + self.size.height);
        let count = count.min(bottom - self.row());
        (0..count).for_each(|_| self.lines.insert(line, Line::new()));
        let over = self.above(self.lines.len()).saturating_sub(bottom);
        self.cut_rows(over);
    }

    /// Deletes rows from the cursor's on; rows below move up.
    fn delete_rows(&mut self, count: usize) {
        self.split_line();
        let (row, line) = (self.row(), self.line);
        let end = (row + count).min(self.above(self.lines.len()));
        if end > row {
            let (last, first) = self.at(end);
            if first > 0 && first < self.lines[last].len() {
                let rest = self.lines[last].split_off(first);
                self.lines.insert(last + 1, rest);
                self.lines.drain(line..=last);
            } else {
                self.lines.drain(line..last);
            }
        }
        self.go(row, 0);
    }

    /// Removes the last rows.
    fn cut_rows(&mut self, count: usize) {
        let width = self.size.width;
        for _ in 0..count {
            let Some(line) = self.lines.last_mut() else { return };
            if line.len() > width {
                let kept = (line.len() - 1) / width * width;
                line.truncate(kept);
            } else {
                self.lines.pop();
            }
        }
    }

    /// Erases from the cursor to the end of its row; the rest of a wrapped line becomes its own line.
    fn erase_line(&mut self) {
        let width = self.size.width;
        let cell = if self.is_pending { self.cell - 1 } else { self.cell };
        let end = (cell / width + 1) * width;
        let line = &mut self.lines[self.line];
        if line.len() > end {
            let rest = line.split_off(end);
            self.lines.insert(self.line + 1, rest);
        }
        self.lines[self.line].truncate(cell);
        // A row that was part of a longer line becomes its own line.
        if cell > 0 && cell.is_multiple_of(width) {
            let line = self.line;
            self.lines.insert(line + 1, Line::new());
            (self.line, self.cell) = (line + 1, 0);
        }
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        use unicode_segmentation::UnicodeSegmentation;
        let mut rest = bytes;
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix('\u{1b}') {
                rest = self.escape(after);
                continue;
            }
            if self.is_alternate {
                rest = rest.split_at(c.len_utf8()).1;
                continue;
            }
            match c {
                '\r' => {
                    let row = self.row();
                    self.go(row, 0);
                    rest = rest.split_at(1).1;
                }
                '\n' => {
                    let (row, column) = (self.row() + 1, self.column());
                    self.go(row, column);
                    self.scroll();
                    rest = rest.split_at(1).1;
                }
                _ => {
                    let grapheme = rest.graphemes(true).next().unwrap();
                    self.put(grapheme, unicode_width::UnicodeWidthStr::width(grapheme).min(2));
                    rest = rest.split_at(grapheme.len()).1;
                }
            }
        }
    }

    fn escape<'a>(&mut self, after: &'a str) -> &'a str {
        if let Some(rest) = after.strip_prefix("]8;;") {
            return rest.split_once("\u{1b}\\").unwrap().1;
        }
        if let Some(rest) = after.strip_prefix('7') {
            self.saved = (self.row() - self.top.min(self.row()), self.column());
            return rest;
        }
        if let Some(rest) = after.strip_prefix('8') {
            let (row, column) = self.saved;
            if !self.is_alternate {
                self.go(self.top + row, column);
            }
            return rest;
        }
        let control = after.strip_prefix('[').unwrap_or_else(|| panic!("{after:?}"));
        let end = control.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        let (parameters, rest) = control.split_at(end);
        let last = rest.chars().next().unwrap();
        if !self.is_alternate || matches!(last, 'h' | 'l') {
            self.control(parameters, last);
        }
        rest.split_at(1).1
    }

    /// All lines as written, without trailing empty cells.
    pub(crate) fn text(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(|line| line.concat().trim_end().to_owned()).collect();
        lines.join("\n").trim_end().to_owned()
    }
}

#[test]
fn a_line_that_is_broken_when_the_terminal_gets_narrower_is_whole_again_when_it_gets_wider() {
    let mut terminal = Reflowing::new(Size::new(20, 5), Reflows::Away);
    terminal.send("abcdefghij klmno\r\nsecond");
    terminal.resize(Size::new(6, 5));
    assert_eq!((terminal.row(), terminal.column()), (4, 5));
    terminal.send("\u{1b}[A\rX\u{1b}[K");
    terminal.resize(Size::new(40, 5));
    assert_eq!(terminal.text(), "$ ls\nabcdefghij kX\nsecond");
}

#[test]
fn what_tmux_answers_with_its_columns_first_is_taken_for_what_it_is() {
    use zk_tui::{Abilities, Caret, InlineScreen, Row, Style};

    // Told of 30 columns, while the terminal is 90 columns wide and 30 rows high again: not the width it was
    // told.
    let size = Size::new(90, 30);
    let tmux = Abilities { reflows: true, tmux: true, ..Abilities::PLAIN };
    for (told, reported, is_settled) in [
        (Size::new(30, 10), (90, 30), false),
        (Size::new(30, 10), (30, 90), false),
        (Size::new(30, 10), (30, 10), true),
        (Size::new(30, 10), (10, 30), true),
    ] {
        let mut screen = InlineScreen::new(size, tmux.clone());
        let row = Row::of(Style::PLAIN, &"x".repeat(60));
        let _ = screen.frame(&[], &[row.clone(), row], Some(Caret { row: 1, column: 0 }));
        assert!(screen.resize(told).contains("\u{1b}[18t"));
        screen.set_reported_size(reported.0, reported.1);
        screen.end_answer();
        assert_eq!(!screen.is_asking(), is_settled, "{told:?} {reported:?}");
    }
}

#[test]
fn what_stood_there_before_stays_when_the_caret_stands_behind_a_row_that_fills_the_narrower_terminal() {
    use zk_tui::{Abilities, Caret, InlineScreen, Row, Style};

    for (text, width) in [("x".repeat(26), 26), ("x".repeat(25), 25), (format!("{}    ", "x".repeat(20)), 22)]
    {
        let size = Size::new(27, 3);
        let mut screen = InlineScreen::new(size, Abilities { reflows: true, ..Abilities::PLAIN });
        let mut terminal = Reflowing::new(size, Reflows::Away);
        let caret = Caret { row: 0, column: text.len() };
        terminal.send(&screen.frame(&[], &[Row::of(Style::PLAIN, &text)], Some(caret)));
        let size = Size::new(width, 3);
        terminal.resize(size);
        terminal.send(&screen.resize(size));
        screen.set_reported_size(3, width);
        screen.end_answer();
        terminal.send(&screen.frame(&[], &[Row::of(Style::PLAIN, "y")], None));
        assert!(terminal.text().starts_with(BEFORE), "{text:?}: {}", terminal.text());
    }
}

#[test]
fn what_a_terminal_answered_holds_no_longer_than_its_size() {
    use zk_tui::{Abilities, Caret, InlineScreen, Row, Style};

    let sizes = [Size::new(60, 9), Size::new(20, 9), Size::new(60, 9)];
    let mut screen = InlineScreen::new(sizes[0], Abilities { reflows: true, ..Abilities::PLAIN });
    let mut terminal = Reflowing::new(sizes[0], Reflows::Away);
    let live = [Row::of(Style::PLAIN, &"x".repeat(59)), Row::of(Style::PLAIN, "›")];
    let caret = Some(Caret { row: 1, column: 0 });
    terminal.send(&screen.frame(&[Row::of(Style::PLAIN, "closed")], &live, caret));
    // The terminal is wide again before its answer from the narrow state is handled.
    for size in &sizes[1..] {
        terminal.resize(*size);
        terminal.send(&screen.resize(*size));
        screen.set_reported_size(size.height, size.width);
        screen.end_answer();
    }
    terminal.send(&screen.frame(&[], &live, caret));
    assert_eq!(terminal.text(), format!("{BEFORE}\nclosed\n{}\n›", "x".repeat(59)));
}
