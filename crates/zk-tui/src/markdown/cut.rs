use super::lines::{Fence, Starts, block_start, indent_of, is_table, underlines_heading};
use super::render::render;
use super::{MAX_OPEN_BYTES, Markdown, Open};
use crate::row::Row;
use crate::text::graphemes;

/// Maximum number of rows by which a cut moves up to avoid the inside of marked-up text.
const MAX_CUT_SHIFT_ROWS: usize = 8;

/// Number of bytes after which the kind of a line is certain.
const MIN_CERTAIN_BYTES: usize = 4;

/// Number of characters that decide whether the rest of a line would be parsed differently.
const CHECKED_CHARS: usize = 80;

/// Cut in a block, and the prefix that makes the rest a block of the same kind.
#[derive(Debug)]
struct Cut {
    at: usize,
    lead: String,
}

impl Markdown {
    /// Takes the first rows of an open block that does not fit, except its last row, which may still grow. The
    /// source of the taken rows is removed, so that later text or another width can neither duplicate nor lose
    /// any of it.
    #[must_use]
    pub fn take_open(&mut self, count: usize) -> Vec<Row> {
        let count = count.min(self.open_rows().len().saturating_sub(1));
        if count == 0 || !self.add_partial_line() {
            return Vec::new();
        }
        // If the line ended the block, its rows are complete.
        let mut rows = self.take_ready();
        if rows.len() >= count {
            return rows;
        }
        rows.extend(self.separating_rows());
        if let Some(cut) = self.best_cut(count.saturating_sub(rows.len())) {
            let head = self.rows_above(&cut);
            if !head.is_empty() {
                rows.extend(head);
                self.source = self.source_below(&cut);
                self.is_rest = true;
            }
        }
        if !rows.is_empty() {
            (self.began, self.joins) = (true, true);
        }
        rows
    }

    /// Appends to the last line of the open block.
    pub(super) fn append_to_line(&mut self, text: &str) {
        self.source.push_str(text);
        self.is_within_line = !text.ends_with('\n');
        self.fix_columns();
        if self.source.len() > MAX_OPEN_BYTES {
            self.close_block();
            self.joins = true;
        }
    }

    /// Adds the incomplete line to the open block, if more text cannot change the line's kind. Returns false if
    /// the block is empty.
    fn add_partial_line(&mut self) -> bool {
        if matches!(self.open, Open::Fence(..)) {
            return false;
        }
        let is_sure = match block_start(&self.partial) {
            Starts::Text => {
                !underlines_heading(&self.partial) && !self.partial.trim_start().starts_with(['`', '~'])
            }
            Starts::Quote => true,
            Starts::Item { is_empty, .. } => !is_empty,
            Starts::Heading | Starts::Rule | Starts::Indented | Starts::Fence(_) => false,
        };
        if is_sure && self.partial.trim().len() >= MIN_CERTAIN_BYTES {
            let line = std::mem::take(&mut self.partial);
            self.parse_line(&line);
            self.is_within_line = !self.source.is_empty();
        }
        !self.source.trim().is_empty()
    }

    fn rows_above(&self, cut: &Cut) -> Vec<Row> {
        render(self.source.get(..cut.at).unwrap_or_default(), self.width, self.margin(), self.item())
    }

    fn source_below(&self, cut: &Cut) -> String {
        format!("{}{}", cut.lead, self.source.get(cut.at..).unwrap_or_default())
    }

    /// Last good cut with at most `room` rows above it.
    fn best_cut(&self, room: usize) -> Option<Cut> {
        if room == 0 || is_table(&self.source) {
            return None;
        }
        let mut cuts = self.cuts();
        let fitting =
            |cuts: &[Cut], room: usize| cuts.partition_point(|cut| self.rows_above(cut).len() <= room);
        let last = fitting(&cuts, room).checked_sub(1)?;
        let whole = visible_chars(&render(&self.source, self.width, self.margin(), self.item()));
        let is_neutral = |cut: &Cut| {
            let rest = super::render::Item { is_rest: true, ..self.item() };
            visible_chars(&self.rows_above(cut))
                + visible_chars(&render(&self.source_below(cut), self.width, self.margin(), rest))
                == whole
        };
        let further_up = (room.saturating_sub(MAX_CUT_SHIFT_ROWS).max(1)..=room).rev();
        let best = further_up
            .filter_map(|room| fitting(&cuts, room).checked_sub(1))
            .find(|at| cuts.get(*at).is_some_and(is_neutral))
            .unwrap_or(last);
        (best < cuts.len()).then(|| cuts.swap_remove(best))
    }

    /// All positions at which the block may be cut, in order.
    fn cuts(&self) -> Vec<Cut> {
        let mut cuts = self.all_cuts();
        // At least one row has to be above the cut.
        cuts.retain(|cut| cut.lead.len() < cut.at);
        cuts
    }

    fn all_cuts(&self) -> Vec<Cut> {
        let (mut cuts, mut at) = (Vec::new(), 0);
        let mut fence: Option<(Fence, String)> = None;
        let mark = match self.open {
            Open::Item { .. } => item_mark(&self.source),
            _ => String::new(),
        };
        let mut quote = String::new();
        for line in self.source.split_inclusive('\n') {
            let begins = at;
            at += line.len();
            let text = line.trim_start();
            if text.is_empty() {
                continue;
            }
            let text_at = begins + (line.len() - text.len());
            match self.open {
                Open::Indented { .. } => {
                    if begins > 0 {
                        cuts.push(Cut { at: begins, lead: String::new() });
                    }
                    continue;
                }
                Open::Quote => {
                    let lead: String = text.chars().take_while(|c| matches!(c, '>' | ' ')).collect();
                    if !lead.is_empty() {
                        quote = lead;
                    }
                    if begins > 0 {
                        let is_lazy = !text.starts_with('>');
                        cuts.push(Cut {
                            at: begins,
                            lead: if is_lazy { quote.clone() } else { String::new() },
                        });
                    }
                }
                _ if begins > 0 => {
                    let opener = fence.as_ref().filter(|(fence, _)| !fence.is_closed_by(text));
                    match (&fence, opener) {
                        // After a cut within code, the rest is code, too.
                        (Some(_), Some((_, opener))) => {
                            cuts.push(Cut { at: begins, lead: format!("{mark}{opener}") });
                        }
                        (Some(_), None) => {}
                        (None, _) => cuts.push(Cut { at: text_at, lead: mark.clone() }),
                    }
                }
                _ => {}
            }
            let inner = text.strip_prefix(mark.trim_start()).filter(|_| begins == 0).unwrap_or(text);
            match &fence {
                Some((open, _)) => {
                    if open.is_closed_by(text) {
                        fence = None;
                    }
                    continue;
                }
                None if !matches!(self.open, Open::Paragraph) => {
                    if let Some(open) = Fence::of(inner) {
                        fence = Some((open, inner.to_owned()));
                        continue;
                    }
                }
                None => {}
            }
            let lead = if quote.is_empty() { &mark } else { &quote };
            self.cuts_within(line, begins, lead, &mut cuts);
        }
        cuts
    }

    /// Finds the cuts within a line: between words, where a row ends.
    fn cuts_within(&self, line: &str, begins: usize, lead: &str, cuts: &mut Vec<Cut>) {
        let (mut before, mut at) = (None, 0);
        for (grapheme, columns) in graphemes(line) {
            let is_break = match before {
                Some((is_blank, was_wide)) => grapheme != " " && (is_blank || was_wide || columns == 2),
                None => false,
            };
            let rest =
                || -> String { line.get(at..).unwrap_or_default().chars().take(CHECKED_CHARS).collect() };
            if is_break && goes_on_as_text(&rest()) {
                cuts.push(Cut { at: begins + at, lead: lead.to_owned() });
            }
            before = Some((grapheme == " ", columns == 2));
            at += grapheme.len();
        }
    }
}

/// Mark of a list item, with the blanks around it.
fn item_mark(source: &str) -> String {
    let line = source.lines().next().unwrap_or_default();
    let text = line.trim_start();
    let mark = text.find([' ', '\t']).unwrap_or(text.len());
    let (mark, rest) = text.split_at(mark);
    let blanks = rest.len() - rest.trim_start().len();
    let before = line.len() - text.len();
    let end = before + mark.len() + if blanks > 4 { 1 } else { blanks };
    format!("{}{}", line.get(..end).unwrap_or_default(), if blanks == 0 { " " } else { "" })
}

/// Whether the rest of a line would still be parsed as text if it began a line.
fn goes_on_as_text(rest: &str) -> bool {
    !rest.trim().is_empty()
        && indent_of(rest) == 0
        && matches!(block_start(rest), Starts::Text)
        && !underlines_heading(rest)
}

/// Counts the visible characters of rows.
fn visible_chars(rows: &[Row]) -> usize {
    rows.iter().map(|row| row.text().chars().filter(|c| !c.is_whitespace()).count()).sum()
}
