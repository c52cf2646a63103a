use super::render::table_of;
use crate::row::{Row, Style};

/// Table whose column widths are fixed, so that each further line is drawn when it arrives.
#[derive(Debug)]
pub(super) struct GrowingTable {
    /// Head of the table, and the line below it.
    head: String,
    width: usize,
    /// Column widths; `None` for a table drawn as a list.
    widths: Option<Vec<usize>>,
}

impl GrowingTable {
    /// Starts a table with these lines; also returns their rows. `None` if they are no table.
    pub(super) fn begin(source: &str, width: usize) -> Option<(Self, Vec<Row>)> {
        let table = table_of(source)?;
        let widths = table.widths(width);
        let rows = table.rows_in(widths.as_deref(), width);
        let head = source.split_inclusive('\n').take(2).collect();
        Some((Self { head, width, widths }, rows))
    }

    /// Rows of a further line.
    pub(super) fn line_rows(&self, line: &str) -> Vec<Row> {
        let table = table_of(&format!("{}{line}", self.head));
        let rows = table.map(|table| table.body_rows(self.widths.as_deref(), self.width)).unwrap_or_default();
        if rows.is_empty() { vec![Row::of(Style::PLAIN, line.trim_end())] } else { rows }
    }
}
