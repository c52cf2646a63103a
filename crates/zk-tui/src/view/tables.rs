use std::sync::Arc;

use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::{RenderInput, RenderedRow, Renderer, SpanRole};

use crate::text::columns;

/// Draws fences of comma and tab separated values as tables.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_core::service::{RenderInput, Renderer};
/// use zk_tui::TableFences;
///
/// let bus = Bus::new();
/// bus.install(&TableFences).unwrap();
/// let renderer = bus.item::<dyn Renderer>("fence:csv").unwrap();
/// let rows = renderer.render(&RenderInput { text: "name,price\n\"tea, green\",3\n", width: 40 }).unwrap();
/// assert_eq!(rows[2].text(), "tea, green  3");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TableFences;

impl Plugin for TableFences {
    fn name(&self) -> &'static str {
        "table-fences"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide::<dyn Renderer>("fence:csv", Arc::new(Separated(',')))?;
        scope.provide::<dyn Renderer>("fence:tsv", Arc::new(Separated('\t')))?;
        Ok(())
    }
}

/// Renderer for values in lines, separated by this character.
struct Separated(char);

impl Renderer for Separated {
    fn render(&self, input: &RenderInput<'_>) -> Option<Vec<RenderedRow>> {
        let lines: Option<Vec<Vec<String>>> =
            input.text.lines().map(|line| parse_line(line, self.0)).collect();
        let lines = lines?;
        let count = lines.first().map(Vec::len).filter(|count| *count > 1)?;
        // Lines of different lengths are no table, and values with line ends are not supported.
        if lines.iter().any(|line| line.len() != count) {
            return None;
        }
        let widest = |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| columns(cell)).max();
        let widths: Vec<usize> = (0..count).map(|at| widest(at).unwrap_or_default()).collect();
        let all = widths.iter().sum::<usize>() + GAP.len() * (count - 1);
        if all > input.width {
            return None;
        }
        let mut rows: Vec<RenderedRow> = lines.iter().map(|line| table_row(line, &widths)).collect();
        rows.first_mut()?.spans.iter_mut().for_each(|span| span.bold = true);
        rows.insert(1, RenderedRow::of(SpanRole::Faint, &"─".repeat(all)));
        Some(rows)
    }
}

/// Space between two columns.
const GAP: &str = "  ";

fn table_row(cells: &[String], widths: &[usize]) -> RenderedRow {
    let mut text = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        text.push_str(cell);
        text.push_str(&" ".repeat(width.saturating_sub(columns(cell))));
        text.push_str(GAP);
    }
    RenderedRow::of(SpanRole::Plain, text.trim_end())
}

/// Values of a line; `None` if a quote is not closed in it.
fn parse_line(line: &str, separator: char) -> Option<Vec<String>> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.peek() == Some(&'"') => {
                rest.next();
                cells.last_mut()?.push('"');
            }
            '"' => is_quoted = !is_quoted,
            c if c == separator && !is_quoted => cells.push(String::new()),
            c => cells.last_mut()?.push(c),
        }
    }
    let trimmed = cells.iter().map(|cell| cell.trim().to_owned()).collect();
    (!is_quoted).then_some(trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_table_or_too_wide_are_left_as_they_are() {
        let draw = |text: &str, width| {
            let rows = Separated(',').render(&RenderInput { text, width })?;
            Some(rows.iter().map(RenderedRow::text).collect::<Vec<_>>())
        };
        assert_eq!(draw("a,b\n漢字,2", 20).unwrap(), ["a     b", "───────", "漢字  2"]);
        assert_eq!(draw("\"say \"\"hi\"\"\",x\n1,2", 20).unwrap()[0], "say \"hi\"  x");
        for (text, width) in
            [("a,b\n1", 20), ("one", 20), ("", 20), ("a,b\n\"1,2", 20), ("aaaa,bbbb\n1,2", 6)]
        {
            assert_eq!(draw(text, width), None, "{text:?}");
        }
    }
}
