use zk_core::model::CallKind;
use zk_view::{Body, Call, CallState, Form, Text};

use super::call::{MAX_LINE_CHARS, hung, remark_rows, wrap_head};
use super::detail::{Detail, MARGIN};
use crate::markdown::Markdown;
use crate::row::{Row, Style};
use crate::text::clip;

/// Indentation of content below a call's head.
const UNDER_HEAD: &str = "    ";

/// Rows of a finished call whose content itself is to be read, in place of summary and outcome; `None` for
/// other calls.
pub(super) fn content_rows(call: &Call, width: usize, detail: Detail) -> Option<Vec<Row>> {
    let body = call.body.as_ref().filter(|_| call.state == CallState::Done)?;
    let mut rows = match &body.form {
        // The present list is shown above the composer.
        Form::Checklist { reshaped } if !*reshaped && detail != Detail::All => Vec::new(),
        Form::Checklist { .. } => checklist_rows(body, width),
        Form::Markdown { outcome } => markdown_rows(call, body, outcome, width),
        Form::Line if call.kind == CallKind::Delegate => delegation_row(call, body, width),
        Form::Line | Form::Lines | Form::Command { .. } | Form::Diff { .. } | Form::Table => return None,
    };
    rows.extend(call.remarks.iter().flat_map(|text| remark_rows(text, width)));
    Some(rows)
}

fn checklist_rows(body: &Body, width: usize) -> Vec<Row> {
    if body.lines.is_empty() {
        return vec![Row::of(Style::DIM, &format!("{MARGIN}the to-do list is empty"))];
    }
    let item = |line: &Text| {
        hung(&Row::of(Style::PLAIN, &clip(line.as_str(), MAX_LINE_CHARS)), MARGIN, UNDER_HEAD, width)
    };
    body.lines.iter().flat_map(item).collect()
}

fn markdown_rows(call: &Call, body: &Body, outcome: &Text, width: usize) -> Vec<Row> {
    let inner = width.saturating_sub(UNDER_HEAD.len()).max(1);
    let plan: String = body.lines.iter().map(|line| format!("{line}\n")).collect();
    let text = Row::of(Style::PLAIN, &clip(&call.headline(), MAX_LINE_CHARS));
    let mut rows = wrap_head(Style::GREEN, "✓", &text, &Row::default(), width);
    for row in Markdown::rows_of(&plan, inner) {
        let mut whole = Row::of(Style::PLAIN, UNDER_HEAD);
        whole.append(&row);
        rows.push(whole);
    }
    if !outcome.is_empty() {
        let text = format!("→ {}", clip(outcome.as_str(), MAX_LINE_CHARS));
        rows.extend(hung(&Row::of(Style::DIM, &text), UNDER_HEAD, &format!("{UNDER_HEAD}  "), width));
    }
    rows
}

/// Row of a call that delegated work to a sub-agent.
fn delegation_row(call: &Call, body: &Body, width: usize) -> Vec<Row> {
    let took = call.elapsed_ms.filter(|ms| *ms >= 1000).map(|ms| format!("{} s", ms / 1000));
    let facts: Vec<String> = body.lines.iter().map(Text::to_string).chain(took).collect();
    let text = Row::of(Style::PLAIN, &clip(&call.headline(), MAX_LINE_CHARS));
    wrap_head(Style::GREEN, "✓", &text, &Row::of(Style::DIM, &facts.join(" · ")), width)
}
