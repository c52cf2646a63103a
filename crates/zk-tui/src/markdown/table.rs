use pulldown_cmark::Alignment;

use crate::row::{Row, Style};
use crate::text::{columns, soft_split, wrap};

/// Separator between two columns.
const GAP: &str = " │ ";
const GAP_COLUMNS: usize = 3;

/// Minimum width of a cell in columns; a table that would need narrower ones becomes a list.
const MIN_CELL_COLUMNS: usize = 4;

/// A table; its first row is the head.
#[derive(Debug, Default)]
pub(super) struct Table {
    alignments: Vec<Alignment>,
    cells: Vec<Vec<Row>>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, cells: Vec::new() }
    }

    pub(super) fn begin_row(&mut self) {
        self.cells.push(Vec::new());
    }

    pub(super) fn push(&mut self, cell: Row) {
        if let Some(row) = self.cells.last_mut() {
            row.push(cell);
        }
    }

    /// Column widths in `width`; `None` if the table becomes a list, since it is too narrow or an address
    /// would be broken.
    pub(super) fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let count = self.cells.iter().map(Vec::len).max().unwrap_or_default();
        let room = width.saturating_sub(GAP_COLUMNS * count.saturating_sub(1));
        if count == 0 || room < MIN_CELL_COLUMNS * count {
            return None;
        }
        let widths = shrink_to_fit(self.natural_widths(count), room);
        self.cells.iter().all(|cells| keeps_addresses(cells, &widths)).then_some(widths)
    }

    /// Draws the rows, none wider than `width` unless a word is.
    pub(super) fn rows(&self, width: usize) -> Vec<Row> {
        self.rows_in(self.widths(width).as_deref(), width)
    }

    /// Draws the rows in columns of these widths, or as a list.
    pub(super) fn rows_in(&self, widths: Option<&[usize]>, width: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        if let (Some(widths), Some(head)) = (widths, self.cells.first()) {
            rows.extend(self.row(head, widths, true));
            let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            rows.push(Row::of(Style::DIM, &lines.join("─┼─")));
        }
        rows.extend(self.body_rows(widths, width));
        rows
    }

    /// Draws the rows as [`rows_in`](Self::rows_in) does, without the head.
    pub(super) fn body_rows(&self, widths: Option<&[usize]>, width: usize) -> Vec<Row> {
        let Some((head, body)) = self.cells.split_first() else { return Vec::new() };
        let rows = |cells: &Vec<Row>| match widths {
            Some(widths) if keeps_addresses(cells, widths) => self.row(cells, widths, false),
            Some(_) | None => row_as_list(head, cells, width),
        };
        body.iter().flat_map(rows).collect()
    }

    fn natural_widths(&self, count: usize) -> Vec<usize> {
        let column = |at| self.cells.iter().filter_map(|row| row.get(at)).map(Row::columns).max();
        (0..count).map(|at| column(at).unwrap_or_default().max(1)).collect()
    }

    fn row(&self, cells: &[Row], widths: &[usize], is_head: bool) -> Vec<Row> {
        let empty = Row::default();
        let wrapped: Vec<Vec<Row>> = widths
            .iter()
            .enumerate()
            .map(|(at, width)| {
                let cell = cells.get(at).unwrap_or(&empty);
                let cell = if is_head { Row::of(Style::BOLD, &cell.text()) } else { cell.clone() };
                let lines = wrap(&cell, &empty, &empty, *width);
                // A word wider than the column is split, since it would shift the other columns.
                lines.iter().flat_map(|line| soft_split(&trim_end(line), *width)).collect()
            })
            .collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
        let mut rows = Vec::new();
        for line in 0..height {
            let mut row = Row::default();
            for (at, (lines, width)) in wrapped.iter().zip(widths).enumerate() {
                if at > 0 {
                    row = row.with(Style::DIM, GAP);
                }
                let cell = lines.get(line).unwrap_or(&empty);
                let free = width.saturating_sub(cell.columns());
                let before = match self.alignments.get(at) {
                    Some(Alignment::Right) => free,
                    Some(Alignment::Center) => free / 2,
                    Some(Alignment::None | Alignment::Left) | None => 0,
                };
                row = row.with(Style::PLAIN, &" ".repeat(before));
                row.append(cell);
                row = row.with(Style::PLAIN, &" ".repeat(free - before));
            }
            rows.push(trim_end(&row));
        }
        rows
    }
}

/// Row of a table as a list: a line for each cell, after the name of its column.
fn row_as_list(head: &[Row], cells: &[Row], width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let name = head.get(at).map(Row::text).unwrap_or_default();
        let mark = if at == 0 { "• " } else { "  " };
        let mut line = Row::of(Style::BOLD, &format!("{name}: "));
        line.append(cell);
        let (first, rest) = (Row::of(Style::PLAIN, mark), Row::of(Style::PLAIN, "    "));
        rows.extend(wrap(&line, &first, &rest, width));
    }
    rows
}

/// Whether every address fits its column: a broken one cannot be copied.
fn keeps_addresses(cells: &[Row], widths: &[usize]) -> bool {
    cells.iter().zip(widths).all(|(cell, width)| {
        let text = cell.text();
        text.split(' ').filter(|word| word.contains("://")).all(|word| columns(word) <= *width)
    })
}

/// Row without trailing blanks.
fn trim_end(row: &Row) -> Row {
    let wide = row.text().trim_end().len();
    let (mut kept, mut left) = (Row::default(), wide);
    for span in row.spans() {
        let text = span.text();
        let part = text.get(..left.min(text.len())).unwrap_or(text);
        if !part.is_empty() {
            kept.push(span.part(part));
        }
        left = left.saturating_sub(text.len());
    }
    kept
}

/// Narrows the widest columns until all fit.
fn shrink_to_fit(mut widths: Vec<usize>, room: usize) -> Vec<usize> {
    loop {
        let total: usize = widths.iter().sum();
        let over = total.saturating_sub(room);
        let widest = widths.iter().copied().max().unwrap_or_default();
        if over == 0 || widest <= MIN_CELL_COLUMNS {
            return widths;
        }
        let next = widths
            .iter()
            .copied()
            .filter(|width| *width < widest)
            .max()
            .unwrap_or(MIN_CELL_COLUMNS)
            .max(MIN_CELL_COLUMNS);
        let count = widths.iter().filter(|width| **width == widest).count();
        let down = (widest - next).min(over.div_ceil(count)).max(1);
        widths.iter_mut().filter(|width| **width == widest).for_each(|width| *width -= down);
    }
}
