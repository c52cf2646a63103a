//! Markdown that arrives in pieces.
//!
//! Source is taken in line by line. A block is drawn as soon as it is complete, and never again; only the block that is
//! still open is drawn anew, so that the work of a frame does not depend on how long the answer is. What is drawn depends
//! on the text alone, not on the pieces it came in.

mod cut;
mod growing_table;
mod highlight;
mod lines;
mod render;
mod table;

#[cfg(test)]
mod tests;

use zk_core::service::RenderInput;

use self::growing_table::GrowingTable;
use self::highlight::{COLOURED, Highlighter};
use self::lines::{Fence, Starts, block_start, indent_of};
use self::render::{Item, render};
use crate::row::{Row, Style};
use crate::text::soft_split;
use crate::view::{MARGIN, Renderers, counted};

/// Maximum size in bytes of an open block, which bounds the cost of a frame.
const MAX_OPEN_BYTES: usize = 16 * 1024;

/// Default number of lines after which a table's columns are fixed.
const DEFAULT_TABLE_LINES: usize = 24;

/// Indentation in columns from which a line belongs to the list item before it.
const ITEM_INDENT_COLUMNS: usize = 2;

/// An answer in Markdown, drawn as it arrives.
#[derive(Debug)]
pub struct Markdown {
    width: usize,
    /// Whether prose has a margin. Code has none, for copying.
    has_margin: bool,
    /// Number of lines after which a table's columns are fixed.
    room: usize,
    open: Open,
    /// Complete lines of the open block.
    source: String,
    /// Line that is not complete yet.
    partial: String,
    /// Rows of complete blocks, to be taken.
    ready: Vec<Row>,
    /// Whether the last line of `source` is incomplete and continues.
    is_within_line: bool,
    /// Whether the first rows of the open list item, with its marker, were taken already.
    is_rest: bool,
    began: bool,
    /// Whether the open block continues one that was cut, or the list of one, so that no blank row separates
    /// them.
    joins: bool,
    /// Number of bytes of code that may still be coloured.
    colours_left: usize,
    renderers: Renderers,
}

#[derive(Debug)]
enum Open {
    Nothing,
    /// Paragraph, which may become a heading or a table.
    Paragraph,
    Quote,
    Indented {
        blanks: usize,
    },
    Item {
        ordinal: Option<u64>,
        blank: bool,
    },
    Fence(Fence, Highlighter),
    /// Code for a renderer, drawn once complete, with its info string.
    Held(Fence, String),
    /// Table whose columns are fixed.
    Table(GrowingTable),
}

impl Markdown {
    /// An empty answer on a terminal of `width` columns.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self {
            width: width.max(1),
            has_margin: false,
            room: DEFAULT_TABLE_LINES,
            open: Open::Nothing,
            source: String::new(),
            partial: String::new(),
            ready: Vec::new(),
            is_within_line: false,
            is_rest: false,
            began: false,
            joins: false,
            colours_left: COLOURED,
            renderers: Renderers::default(),
        }
    }

    /// Rows of a whole text, each within `width` columns.
    pub(crate) fn rows_of(text: &str, width: usize) -> Vec<Row> {
        let mut markdown = Self::new(width);
        markdown.push(text);
        markdown.finish();
        markdown.take_ready().iter().flat_map(|row| soft_split(row, width)).collect()
    }

    /// Draws prose with a margin.
    #[must_use]
    pub fn with_margin(self) -> Self {
        Self { has_margin: true, ..self }
    }

    fn margin(&self) -> &'static str {
        if self.has_margin { MARGIN } else { "" }
    }

    /// Prepends the margin to the rows of a table.
    fn prepend_margin(&self, rows: Vec<Row>) -> Vec<Row> {
        let behind = |row: Row| {
            let mut whole = Row::of(Style::PLAIN, self.margin());
            whole.append(&row);
            whole
        };
        if self.has_margin { rows.into_iter().map(behind).collect() } else { rows }
    }

    fn table_width(&self) -> usize {
        self.width.saturating_sub(self.margin().len()).max(1)
    }

    /// Sets the renderers of fences.
    #[must_use]
    pub fn with_renderers(mut self, renderers: Renderers) -> Self {
        self.renderers = renderers;
        self
    }

    /// Sets the width of later rows; rendered rows stay.
    pub fn set_width(&mut self, width: usize) {
        self.width = width.max(1);
    }

    /// Sets the number of lines after which a table's columns are fixed by these lines. From then on, each
    /// further row is drawn at once.
    pub fn set_room(&mut self, lines: usize) {
        self.room = lines.max(3);
    }

    /// Appends text.
    pub fn push(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            if self.is_within_line {
                self.append_to_line(piece);
                continue;
            }
            self.partial.push_str(piece);
            if self.partial.ends_with('\n') {
                let line = std::mem::take(&mut self.partial);
                self.parse_in_parts(&line, true);
            } else if self.partial.len() > MAX_OPEN_BYTES {
                let line = std::mem::take(&mut self.partial);
                self.partial = self.parse_in_parts(&line, false);
            }
        }
    }

    /// Ends the text and closes the open block.
    pub fn finish(&mut self) {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() {
            self.parse_in_parts(&line, true);
        }
        self.close_block();
    }

    /// The rows that will not change any more.
    #[must_use]
    pub fn take_ready(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.ready)
    }

    /// Rows of the open block. A table whose columns are not fixed is a single row.
    #[must_use]
    pub fn open_rows(&self) -> Vec<Row> {
        let mut rows = self.separating_rows();
        if let Open::Fence(fence, highlighter) = &self.open {
            if !self.partial.is_empty() && !fence.is_closed_by(&self.partial) {
                rows.push(highlighter.clone().line(&fence.strip(&self.partial)));
            }
            return rows;
        }
        if matches!(self.open, Open::Table(_)) {
            return Vec::new();
        }
        if let Open::Held(_, info) = &self.open {
            let lines = counted(self.source.lines().count() as u64, "line");
            rows.push(Row::of(Style::DIM, &format!("┄ {info}, {lines} so far")));
            return rows;
        }
        let source = format!("{}{}", self.source, self.partial);
        if source.trim().is_empty() {
            return Vec::new();
        }
        if matches!(self.open, Open::Nothing) && Fence::of(&self.partial).is_some() {
            return rows;
        }
        if matches!(self.open, Open::Paragraph) && lines::is_table(&source) {
            let count = source.lines().count().saturating_sub(2);
            let so_far = counted(count as u64, "row");
            rows.push(Row::of(Style::DIM, &format!("{}┄ table, {so_far} so far", self.margin())));
        } else {
            rows.extend(render(&source, self.width, self.margin(), self.item()));
        }
        rows
    }

    fn separating_rows(&self) -> Vec<Row> {
        let wanted = self.began
            && !self.joins
            && !matches!(self.open, Open::Fence(..) | Open::Held(..) | Open::Table(_));
        if wanted { vec![Row::default()] } else { Vec::new() }
    }

    fn item(&self) -> Item {
        match self.open {
            Open::Item { ordinal, .. } => Item { ordinal, is_rest: self.is_rest },
            Open::Nothing
            | Open::Paragraph
            | Open::Quote
            | Open::Indented { .. }
            | Open::Fence(..)
            | Open::Held(..)
            | Open::Table(_) => Item::default(),
        }
    }

    /// Parses a line, in parts if it is longer than [`MAX_OPEN`]. Returns the rest of an incomplete line, to
    /// be parsed again with more text.
    fn parse_in_parts(&mut self, line: &str, is_complete: bool) -> String {
        let mut rest = line;
        while rest.len() > MAX_OPEN_BYTES {
            let mut at = MAX_OPEN_BYTES;
            while !rest.is_char_boundary(at) {
                at -= 1;
            }
            let (part, more) = rest.split_at(at);
            self.parse_line(part);
            if !matches!(self.open, Open::Fence(..) | Open::Held(..)) {
                self.close_block();
                self.joins = true;
            }
            rest = more;
        }
        if !is_complete {
            return rest.to_owned();
        }
        self.parse_line(rest);
        String::new()
    }

    /// Parses a complete line.
    fn parse_line(&mut self, line: &str) {
        if let Open::Fence(fence, highlighter) = &mut self.open {
            if fence.is_closed_by(line) {
                self.colours_left = highlighter.left();
                self.open = Open::Nothing;
            } else {
                self.ready.push(highlighter.line(&fence.strip(line)));
            }
            return;
        }
        if let Open::Held(fence, _) = &self.open {
            if fence.is_closed_by(line) {
                self.close_block();
                return;
            }
            self.source.push_str(&fence.strip(line));
            self.source.push('\n');
            if self.source.len() > RenderInput::MAX_BYTES {
                self.draw_as_code();
            }
            return;
        }
        let is_blank = line.trim().is_empty();
        if let Open::Table(table) = &self.open
            && !is_blank
            && !block_start(line).interrupts_paragraph()
        {
            let rows = table.line_rows(line);
            let rows = self.prepend_margin(rows);
            self.ready.extend(rows);
            return;
        }
        let goes_on = match &mut self.open {
            Open::Nothing | Open::Table(_) => false,
            Open::Paragraph if is_blank => false,
            Open::Paragraph => {
                if lines::underlines_heading(line) {
                    self.source.push_str(line);
                    self.close_block();
                    return;
                }
                !block_start(line).interrupts_paragraph()
            }
            Open::Quote => !is_blank && matches!(block_start(line), Starts::Text | Starts::Quote),
            Open::Indented { blanks } => {
                if is_blank {
                    *blanks += 1;
                    return;
                }
                let goes_on = indent_of(line) >= 4;
                if goes_on {
                    (0..std::mem::take(blanks)).for_each(|_| self.source.push('\n'));
                }
                goes_on
            }
            Open::Item { blank, .. } if is_blank => {
                *blank = true;
                true
            }
            Open::Item { blank, .. } => {
                indent_of(line) >= ITEM_INDENT_COLUMNS
                    || (!*blank && matches!(block_start(line), Starts::Text))
            }
            Open::Fence(..) | Open::Held(..) => return,
        };
        if goes_on {
            self.source.push_str(line);
        } else {
            self.begin_block(line, is_blank);
        }
        self.fix_columns();
        if self.source.len() > MAX_OPEN_BYTES {
            self.close_block();
            self.joins = true;
        }
    }

    /// Fixes the columns of a long table and draws its lines so far.
    fn fix_columns(&mut self) {
        let is_complete = self.source.ends_with('\n') && matches!(self.open, Open::Paragraph);
        if !is_complete || !lines::is_table(&self.source) {
            return;
        }
        if self.source.lines().count() <= self.room && self.source.len() <= MAX_OPEN_BYTES {
            return;
        }
        if let Some((table, rows)) = GrowingTable::begin(&self.source, self.table_width()) {
            let separator = self.separating_rows();
            self.ready.extend(separator);
            let rows = self.prepend_margin(rows);
            self.ready.extend(rows);
            (self.began, self.joins) = (true, false);
            self.source.clear();
            self.open = Open::Table(table);
        }
    }

    /// Closes the open block and starts another one with `line`.
    fn begin_block(&mut self, line: &str, is_blank: bool) {
        let before = match self.open {
            Open::Item { ordinal, blank } => Some((ordinal, blank)),
            Open::Nothing
            | Open::Paragraph
            | Open::Quote
            | Open::Indented { .. }
            | Open::Fence(..)
            | Open::Held(..)
            | Open::Table(_) => None,
        };
        self.close_block();
        if is_blank {
            return;
        }
        self.open = match block_start(line) {
            Starts::Fence(fence) => {
                if self.began && !self.joins {
                    self.ready.push(Row::default());
                }
                (self.began, self.joins) = (true, false);
                if self.renderers.has_fence(fence.info(line)) {
                    let info = fence.info(line).to_owned();
                    self.open = Open::Held(fence, info);
                    return;
                }
                let highlighter = Highlighter::of(fence.info(line)).within(self.colours_left);
                self.open = Open::Fence(fence, highlighter);
                return;
            }
            Starts::Heading | Starts::Rule => {
                self.source.push_str(line);
                self.close_block();
                return;
            }
            Starts::Quote => Open::Quote,
            Starts::Indented => Open::Indented { blanks: 0 },
            Starts::Item { number, .. } => {
                // The next item of the same list continues the numbering, whatever its number.
                let continues = before.filter(|(ordinal, _)| ordinal.is_some() == number.is_some());
                self.joins = matches!(continues, Some((_, false)));
                let ordinal = match (continues, number) {
                    (Some((Some(before), _)), Some(_)) => Some(before.saturating_add(1)),
                    (_, number) => number,
                };
                Open::Item { ordinal, blank: false }
            }
            Starts::Text => Open::Paragraph,
        };
        self.source.push_str(line);
    }

    /// Draws a held-back fence as code from now on.
    fn draw_as_code(&mut self) {
        let Open::Held(fence, info) = std::mem::replace(&mut self.open, Open::Nothing) else { return };
        let mut highlighter = Highlighter::of(&info).within(self.colours_left);
        let source = std::mem::take(&mut self.source);
        self.ready.extend(source.lines().map(|line| highlighter.line(line)));
        self.open = Open::Fence(fence, highlighter);
    }

    /// Closes the open block, and draws it in its final form.
    fn close_block(&mut self) {
        if let Open::Held(_, info) = &self.open {
            match self.renderers.fence(info, &self.source, self.width) {
                Some(rows) => self.ready.extend(rows),
                None => {
                    self.draw_as_code();
                    if let Open::Fence(_, highlighter) = &self.open {
                        self.colours_left = highlighter.left();
                    }
                }
            }
            self.source.clear();
        }
        if !self.source.trim().is_empty() {
            let rows = self.separating_rows();
            self.ready.extend(rows);
            self.ready.extend(render(&self.source, self.width, self.margin(), self.item()));
            (self.began, self.joins) = (true, false);
        }
        (self.is_within_line, self.is_rest) = (false, false);
        self.source.clear();
        self.open = Open::Nothing;
    }
}
