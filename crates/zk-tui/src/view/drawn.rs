use zk_core::model::CallKind;
use zk_view::{Body, Call, CallState, Form, Text};

use super::block::{Detail, LINE};
use crate::markdown::Markdown;
use crate::row::{Row, Style};
use crate::text::{clip, soft_split};

/// Columns by which content stands to the right of the row it belongs to.
const INDENT: &str = "  ";

/// The rows of a call that is over and has content to be read as it is, in the place of its summary and its outcome;
/// nothing of other calls.
pub(super) fn content_rows(call: &Call, width: usize, detail: Detail) -> Option<Vec<Row>> {
    let body = call.body.as_ref().filter(|_| call.state == CallState::Done)?;
    match &body.form {
        Form::Checklist { reshaped } => {
            // Above the place to type stands the list as it is.
            Some(if *reshaped || detail == Detail::All { checklist(body) } else { Vec::new() })
        }
        Form::Markdown { outcome } => Some(markdown(call, body, outcome, width)),
        Form::Line if call.kind == CallKind::Delegate => Some(vec![delegated(call, body)]),
        Form::Line | Form::Lines | Form::Command { .. } | Form::Diff { .. } | Form::Table => None,
    }
}

fn checklist(body: &Body) -> Vec<Row> {
    if body.lines.is_empty() {
        return vec![Row::of(Style::CYAN, "● to-do list: empty")];
    }
    let head = Row::of(Style::CYAN, "● to-do list");
    let item = |line: &Text| Row::of(Style::PLAIN, &format!("{INDENT}{}", clip(line.as_str(), LINE)));
    std::iter::once(head).chain(body.lines.iter().map(item)).collect()
}

fn markdown(call: &Call, body: &Body, outcome: &Text, width: usize) -> Vec<Row> {
    let inner = width.saturating_sub(INDENT.len()).max(1);
    let mut markdown = Markdown::new(inner);
    body.lines.iter().for_each(|line| markdown.push(&format!("{line}\n")));
    markdown.finish();
    let mut rows = vec![Row::of(Style::CYAN, &format!("● {}", clip(&call.headline(), LINE)))];
    for row in markdown.take_ready().into_iter().flat_map(|row| soft_split(&row, inner)) {
        let mut whole = Row::of(Style::PLAIN, INDENT);
        whole.append(&row);
        rows.push(whole);
    }
    if !outcome.is_empty() {
        rows.push(Row::of(Style::DIM, &format!("{INDENT}→ {}", clip(outcome.as_str(), LINE))));
    }
    rows
}

/// The row of work that somebody else did.
fn delegated(call: &Call, body: &Body) -> Row {
    let took = call.elapsed_ms.filter(|ms| *ms >= 1000).map(|ms| format!("{} s", ms / 1000));
    let facts: Vec<String> = body.lines.iter().map(Text::to_string).chain(took).collect();
    Row::of(Style::CYAN, &format!("✓ {}", clip(&call.headline(), LINE)))
        .with(Style::DIM, &format!("   {}", facts.join(" · ")))
}
