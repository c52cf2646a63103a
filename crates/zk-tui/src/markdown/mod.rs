//! Markdown that arrives in pieces.
//!
//! Source is taken in line by line. A block is drawn as soon as it is complete, and never again; only the block that is
//! still open is drawn anew, so that the work of a frame does not depend on how long the answer is. What is drawn depends
//! on the text alone, not on the pieces it came in.

mod highlight;
mod lines;
mod render;
mod table;

#[cfg(test)]
mod tests;

use self::highlight::Highlighter;
use self::lines::{Fence, Starts, indent_of, starts};
use self::render::{Ordinal, render};
use crate::row::Row;
use crate::style::Style;

/// Bytes of an open block after which it is cut: what one frame may have to draw.
const MAX_OPEN: usize = 16 * 1024;

/// Columns of indentation that make a line part of the list item before it.
const WITHIN_ITEM: usize = 2;

/// An answer in Markdown, drawn as it arrives.
#[derive(Debug)]
pub struct Markdown {
    width: usize,
    open: Open,
    /// Complete lines of the open block.
    source: String,
    /// The line that is not complete yet.
    partial: String,
    /// Rows of complete blocks that nobody took yet.
    ready: Vec<Row>,
    /// Rows of the open block that were taken before it was complete.
    taken: usize,
    began: bool,
    /// The open block goes on where the one before was cut, or is the next item of its list: no blank row between.
    joins: bool,
}

#[derive(Debug)]
enum Open {
    Nothing,
    /// A paragraph, which may turn out to be a heading or a table.
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
}

impl Markdown {
    /// An empty answer on a terminal of `width` columns.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self {
            width: width.max(1),
            open: Open::Nothing,
            source: String::new(),
            partial: String::new(),
            ready: Vec::new(),
            taken: 0,
            began: false,
            joins: false,
        }
    }

    /// Draws for another width from now on; what is drawn already stays.
    pub fn set_width(&mut self, width: usize) {
        self.width = width.max(1);
    }

    /// Takes in more text.
    pub fn push(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            self.partial.push_str(piece);
            if self.partial.ends_with('\n') {
                let line = std::mem::take(&mut self.partial);
                self.cut(&line, true);
            } else if self.partial.len() > MAX_OPEN {
                let line = std::mem::take(&mut self.partial);
                self.partial = self.cut(&line, false);
            }
        }
    }

    /// The text is complete.
    pub fn finish(&mut self) {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() {
            self.cut(&line, true);
        }
        self.close();
    }

    /// The rows that will not change any more.
    #[must_use]
    pub fn take_ready(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.ready)
    }

    /// The rows of the block that is still open; an open table is one row until it is complete.
    #[must_use]
    pub fn open_rows(&self) -> Vec<Row> {
        let mut rows = self.separator();
        if let Open::Fence(fence, highlighter) = &self.open {
            if !self.partial.is_empty() && !fence.is_closed_by(&self.partial) {
                rows.push(highlighter.clone().line(&fence.strip(&self.partial)));
            }
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
            rows.push(Row::of(Style::DIM, &format!("┄ table, {count} rows so far")));
        } else {
            rows.extend(render(&source, self.width, self.ordinal()));
        }
        rows.drain(..self.taken.min(rows.len()));
        rows
    }

    /// Takes the first rows of the open block although it is not complete: there is no room for them. The last one may
    /// still grow, and stays.
    #[must_use]
    pub fn take_open(&mut self, count: usize) -> Vec<Row> {
        let mut rows = self.open_rows();
        rows.truncate(count.min(rows.len().saturating_sub(1)));
        self.taken += rows.len();
        rows
    }

    fn separator(&self) -> Vec<Row> {
        let wanted = self.began && !self.joins && !matches!(self.open, Open::Fence(..));
        if wanted { vec![Row::default()] } else { Vec::new() }
    }

    fn ordinal(&self) -> Ordinal {
        match self.open {
            Open::Item { ordinal, .. } => Ordinal(ordinal),
            Open::Nothing | Open::Paragraph | Open::Quote | Open::Indented { .. } | Open::Fence(..) => {
                Ordinal(None)
            }
        }
    }

    /// Takes in a line, a longer one in parts; gives what is left of one that is not complete.
    fn cut(&mut self, line: &str, is_complete: bool) -> String {
        let mut rest = line;
        while rest.len() > MAX_OPEN {
            let mut at = MAX_OPEN;
            while !rest.is_char_boundary(at) {
                at -= 1;
            }
            let (part, more) = rest.split_at(at);
            self.line(part);
            if !matches!(self.open, Open::Fence(..)) {
                self.close();
                self.joins = true;
            }
            rest = more;
        }
        if !is_complete {
            return rest.to_owned();
        }
        self.line(rest);
        String::new()
    }

    /// Takes in a complete line.
    fn line(&mut self, line: &str) {
        if let Open::Fence(fence, highlighter) = &mut self.open {
            if fence.is_closed_by(line) {
                self.open = Open::Nothing;
            } else {
                self.ready.push(highlighter.line(&fence.strip(line)));
            }
            return;
        }
        let is_blank = line.trim().is_empty();
        let goes_on = match &mut self.open {
            Open::Nothing => false,
            Open::Paragraph if is_blank => false,
            Open::Paragraph => {
                if lines::underlines_heading(line) {
                    self.source.push_str(line);
                    self.close();
                    return;
                }
                !starts(line).interrupts_paragraph()
            }
            Open::Quote => !is_blank && matches!(starts(line), Starts::Text | Starts::Quote),
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
                indent_of(line) >= WITHIN_ITEM || (!*blank && matches!(starts(line), Starts::Text))
            }
            Open::Fence(..) => return,
        };
        if goes_on {
            self.source.push_str(line);
        } else {
            self.begin(line, is_blank);
        }
        if self.source.len() > MAX_OPEN {
            self.close();
            self.joins = true;
        }
    }

    /// Ends the open block, and begins another one with `line`.
    fn begin(&mut self, line: &str, is_blank: bool) {
        let before = match self.open {
            Open::Item { ordinal, blank } => Some((ordinal, blank)),
            Open::Nothing | Open::Paragraph | Open::Quote | Open::Indented { .. } | Open::Fence(..) => None,
        };
        self.close();
        if is_blank {
            return;
        }
        self.open = match starts(line) {
            Starts::Fence(fence) => {
                if self.began && !self.joins && self.taken == 0 {
                    self.ready.push(Row::default());
                }
                (self.began, self.joins, self.taken) = (true, false, 0);
                let highlighter = Highlighter::of(fence.info(line));
                self.open = Open::Fence(fence, highlighter);
                return;
            }
            Starts::Heading | Starts::Rule => {
                self.source.push_str(line);
                self.close();
                return;
            }
            Starts::Quote => Open::Quote,
            Starts::Indented => Open::Indented { blanks: 0 },
            Starts::Item { number, .. } => {
                // The next item of the same list counts on, whatever number it has.
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

    /// Draws the open block as it stays.
    fn close(&mut self) {
        if !self.source.trim().is_empty() {
            let mut rows = self.separator();
            rows.extend(render(&self.source, self.width, self.ordinal()));
            // The line that ended the block may have been taken with it.
            let taken = self.taken.min(rows.len());
            self.taken -= taken;
            self.ready.extend(rows.into_iter().skip(taken));
            (self.began, self.joins) = (true, false);
        }
        self.source.clear();
        self.open = Open::Nothing;
    }
}
