use zk_core::model::CommandExit;
use zk_view::{Body, Call, CallState, Form, Text};

use super::counted;
use super::detail::{Detail, MARGIN};
use super::diff::short_diff;
use crate::row::{Row, Style};
use crate::text::{clip, wrap, wrap_within};

/// Maximum number of rows in short form of a diff, of a successful output, and of a failed one.
const MAX_DIFF_ROWS: usize = 20;
const MAX_OUTPUT_ROWS: usize = 5;
const MAX_FAILED_OUTPUT_ROWS: usize = 15;

/// Maximum length of a shown log line in characters; the full line is shown on request.
pub(super) const MAX_LINE_CHARS: usize = 300;

/// Minimum duration of a command that is shown, in milliseconds.
const MIN_TOLD_MS: u64 = 100;

/// Columns before the summary of a call: margin, sign and a blank.
pub(super) const HEAD_COLUMNS: usize = 4;

/// Minimum gap in columns between a row and the facts at its end.
pub(super) const MIN_FACTS_GAP: usize = 2;

/// Indentation of a call's output and other content under its head.
const UNDER_HEAD: &str = "    ";
const UNDER_CALL: &str = "      ";

/// Rows of a finished call: head with outcome, then the end of its output or its changes.
pub(super) fn call_rows(call: &Call, width: usize, detail: Detail) -> Vec<Row> {
    let (style, sign) = sign_of(call.state);
    let mut rows = call_head(style, sign, call, &facts(call), width);
    if detail == Detail::All {
        rows.extend(argument_rows(call));
        rows.extend(kind_and_paths(call));
    }
    rows.extend(body_rows(call, width, detail));
    rows.extend(call.remarks.iter().flat_map(|text| remark_rows(text, width)));
    rows
}

/// Rows of a running call: head with duration, then the end of its output.
pub(super) fn running_rows(call: &Call, width: usize, seconds: Option<u64>) -> Vec<Row> {
    let (style, sign) = sign_of(call.state);
    let is_running = call.state == CallState::Running;
    let seconds = seconds.filter(|seconds| is_running && *seconds > 0);
    let facts = seconds.map_or_else(Row::default, |seconds| Row::of(Style::DIM, &format!("{seconds} s")));
    let mut rows = call_head(style, sign, call, &facts, width);
    rows.extend(call.progress.as_str().lines().flat_map(|line| output_rows(line, width)));
    rows
}

/// Sign before a call, with its style.
fn sign_of(state: CallState) -> (Style, &'static str) {
    match state {
        CallState::Writing | CallState::Waiting => (Style::DIM, "○"),
        CallState::Running => (Style::BLUE, "●"),
        CallState::Done => (Style::GREEN, "✓"),
        CallState::Parked => (Style::YELLOW, "○"),
        CallState::Skipped | CallState::NotRun => (Style::DIM, "✗"),
        CallState::Failed
        | CallState::Refused
        | CallState::Invalid
        | CallState::Unknown
        | CallState::OutcomeUnknown => (Style::RED, "✗"),
    }
}

fn call_head(style: Style, sign: &str, call: &Call, facts: &Row, width: usize) -> Vec<Row> {
    let headline = call.headline();
    // A command is shown in full.
    let text = if call.argument.is_some() { headline.into_owned() } else { clip(&headline, MAX_LINE_CHARS) };
    wrap_head(style, sign, &Row::of(Style::PLAIN, &text), facts, width)
}

/// Rows of a call's head: sign, summary, and the facts at the end of the row if they fit. A long summary
/// continues below its start, with the facts in the last row.
pub(super) fn wrap_head(style: Style, sign: &str, text: &Row, facts: &Row, width: usize) -> Vec<Row> {
    let mark = Row::of(Style::PLAIN, MARGIN).with(style, sign).with(Style::PLAIN, " ");
    // Further lines of a command are indented by the width of the prompt sign `$ `.
    let is_command = text.text().starts_with("$ ");
    let hang = Row::of(Style::PLAIN, if is_command { UNDER_CALL } else { UNDER_HEAD });
    let mut rows = wrap(text, &mark, &hang, width);
    if facts.columns() == 0 {
        return rows;
    }
    match rows.as_slice() {
        [only] if fits(only, facts, width) => vec![with_facts(only.clone(), facts, width)],
        [_, ..] | [] => {
            rows.extend(wrap(
                facts,
                &Row::of(Style::PLAIN, UNDER_HEAD),
                &Row::of(Style::PLAIN, UNDER_HEAD),
                width,
            ));
            rows
        }
    }
}

fn fits(row: &Row, facts: &Row, width: usize) -> bool {
    row.columns() + MIN_FACTS_GAP + facts.columns() <= width
}

/// Row with right-aligned facts.
pub(crate) fn with_facts(row: Row, facts: &Row, width: usize) -> Row {
    let gap = width.saturating_sub(row.columns() + facts.columns());
    let mut row = row.with(Style::PLAIN, &" ".repeat(gap));
    row.append(facts);
    row
}

/// Outcome of a call, in a few words.
fn facts(call: &Call) -> Row {
    let why = |what: &str| {
        let why = call.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        Row::of(Style::DIM, &clip(&format!("{what}{why}"), MAX_LINE_CHARS))
    };
    match (call.state, &call.body) {
        (CallState::Refused, _) => why("refused"),
        (CallState::Parked, _) => why("waits for approval"),
        (CallState::Skipped | CallState::NotRun, _) => why("not run"),
        // The model gets the reason in the same words.
        (CallState::OutcomeUnknown, _) => Row::of(Style::DIM, "cut off: its effects are unknown"),
        (CallState::Invalid, _) => why("called with invalid arguments"),
        (CallState::Unknown, _) => why("there is no such tool"),
        (CallState::Writing | CallState::Waiting | CallState::Running, _) | (_, None) => Row::default(),
        (CallState::Done, Some(body)) => {
            let facts = outcome_facts(body, call.elapsed_ms, false);
            match unrepeated(&facts.text(), call.summary.as_str()) {
                Some(rest) => Row::of(Style::DIM, rest),
                None => facts,
            }
        }
        (CallState::Failed, Some(body)) => outcome_facts(body, call.elapsed_ms, true),
    }
}

/// Facts without the words that the summary has already: `9 lines` for `read 9 lines of x.rs` and `read x.rs`.
fn unrepeated<'a>(facts: &'a str, summary: &str) -> Option<&'a str> {
    let (verb, object) = summary.split_once(' ')?;
    facts.strip_prefix(verb)?.strip_prefix(' ')?.strip_suffix(object)?.strip_suffix(" of ")
}

fn outcome_facts(body: &Body, elapsed_ms: Option<u64>, failed: bool) -> Row {
    let took = |least: u64| elapsed_ms.filter(|ms| *ms >= least).map(duration);
    let dim = |facts: Vec<String>| Row::of(Style::DIM, &facts.join(" · "));
    match (&body.form, &body.lines[..]) {
        (Form::Command { exit }, _) => {
            let ended = failed.then(|| short_exit(exit));
            let silent = (body.total_lines == 0).then(|| "no output".to_owned());
            dim(ended.into_iter().chain(silent).chain(took(MIN_TOLD_MS)).collect())
        }
        // An error is shown below in words.
        (
            Form::Diff { .. }
            | Form::Line
            | Form::Lines
            | Form::Table
            | Form::Markdown { .. }
            | Form::Checklist { .. },
            _,
        ) if failed => dim(took(1000).into_iter().collect()),
        (Form::Line | Form::Lines, [line]) => Row::of(Style::DIM, &clip(line.as_str(), MAX_LINE_CHARS)),
        (Form::Diff { added, removed, .. }, _) => Row::of(Style::GREEN, &format!("+{added}"))
            .with(Style::PLAIN, " ")
            .with(Style::RED, &format!("−{removed}")),
        (Form::Table, _) => dim([counted(body.total_lines, "row")].into_iter().chain(took(1000)).collect()),
        (Form::Line | Form::Lines | Form::Markdown { .. } | Form::Checklist { .. }, _) => {
            dim([counted(body.total_lines, "line")].into_iter().chain(took(1000)).collect())
        }
    }
}

/// The exit of a command in short.
pub(crate) fn short_exit(exit: &CommandExit) -> String {
    match exit {
        CommandExit::Code { code } => format!("exit {code}"),
        other => other.to_string(),
    }
}

/// Duration in words; short ones with tenths of a second.
pub(crate) fn duration(ms: u64) -> String {
    if ms < 10_000 { format!("{:.1} s", ms as f64 / 1e3) } else { super::rounded(ms) }
}

/// Rows of the call's argument, if the head shows only a part of it.
fn argument_rows(call: &Call) -> Vec<Row> {
    let lines = call.argument.iter().flat_map(|argument| argument.as_str().lines());
    lines.map(|line| Row::of(Style::PLAIN, &format!("{UNDER_HEAD}│ {line}"))).collect()
}

/// Row with the kind of a call and its paths.
fn kind_and_paths(call: &Call) -> Option<Row> {
    let line = call.line.map(|line| format!(":{line}")).unwrap_or_default();
    let mut places = call.locations.iter().map(Text::to_string);
    let first = places.next().map(|first| format!("{first}{line}"));
    let places: Vec<String> = first.into_iter().chain(places).collect();
    let places = if places.is_empty() { String::new() } else { format!(" · {}", places.join(", ")) };
    (!call.kind.is_other()).then(|| {
        Row::of(Style::DIM, &format!("{UNDER_HEAD}{}{}", call.kind.name(), clip(&places, MAX_LINE_CHARS)))
    })
}

pub(super) fn remark_rows(text: &Text, width: usize) -> Vec<Row> {
    let text = format!("↳ {}", clip(text.as_str(), MAX_LINE_CHARS));
    hung(&Row::of(Style::DIM, &text), UNDER_HEAD, UNDER_CALL, width)
}

/// The rows under the head of a call that ran.
fn body_rows(call: &Call, width: usize, detail: Detail) -> Vec<Row> {
    let failed = call.state == CallState::Failed;
    let (CallState::Done | CallState::Failed, Some(body)) = (call.state, &call.body) else {
        return Vec::new();
    };
    let shown = detail.row_limit(if failed { MAX_FAILED_OUTPUT_ROWS } else { MAX_OUTPUT_ROWS });
    match &body.form {
        Form::Diff { added, removed, .. } if !failed => {
            let most = detail.row_limit(MAX_DIFF_ROWS);
            let (mut rows, changes) =
                short_diff(body.lines.iter().map(Text::as_str), UNDER_HEAD, most, width);
            append_omitted(&mut rows, (added + removed).saturating_sub(changes), width, detail);
            rows
        }
        Form::Command { .. } => last_lines(body, shown, width, detail),
        Form::Table | Form::Lines if detail == Detail::All && body.total_lines > 1 => {
            last_lines(body, shown, width, detail)
        }
        // The beginning of an error names the failure, so it is shown instead of the end.
        Form::Lines
        | Form::Line
        | Form::Diff { .. }
        | Form::Table
        | Form::Markdown { .. }
        | Form::Checklist { .. }
            if failed =>
        {
            let kept = body.lines.len().min(shown);
            let mut rows: Vec<Row> =
                body.lines.iter().take(kept).flat_map(|line| output_rows(line.as_str(), width)).collect();
            append_omitted(&mut rows, body.total_lines.saturating_sub(kept as u64), width, detail);
            rows
        }
        Form::Lines
        | Form::Line
        | Form::Diff { .. }
        | Form::Table
        | Form::Markdown { .. }
        | Form::Checklist { .. } => Vec::new(),
    }
}

/// Rows of a line of output, all with the margin.
fn output_rows(line: &str, width: usize) -> Vec<Row> {
    hung(&Row::of(Style::DIM, &clip(line, MAX_LINE_CHARS)), UNDER_CALL, UNDER_CALL, width)
}

/// Wraps a line that is no code, so that each row keeps its margin.
pub(super) fn hung(line: &Row, first: &str, rest: &str, width: usize) -> Vec<Row> {
    let edge = |text: &str| Row::of(line.style(), text);
    wrap_within(line, &edge(first), &edge(rest), width)
}

/// Appends the number of hidden lines and the key for them to the last row, or adds a row if there is no
/// space.
fn append_omitted(rows: &mut Vec<Row>, hidden: u64, width: usize, detail: Detail) {
    if hidden == 0 {
        return;
    }
    let lines = counted(hidden, "line");
    let key = if detail == Detail::Short { "Ctrl-T" } else { "/show" };
    let text = Row::of(Style::DIM, &format!("{lines} more · {key}"));
    match rows.last_mut() {
        Some(last) if fits(last, &text, width) && !last.has_fill() => {
            *last = with_facts(last.clone(), &text, width)
        }
        Some(_) | None => {
            let mut row = Row::of(Style::DIM, UNDER_CALL);
            row.append(&text);
            rows.push(row);
        }
    }
}

/// Last lines of an output, and the number of lines before them.
fn last_lines(body: &Body, shown: usize, width: usize, detail: Detail) -> Vec<Row> {
    let hidden = body.lines.len().saturating_sub(shown);
    let before = body.total_lines.saturating_sub((body.lines.len() - hidden) as u64);
    let mut rows: Vec<Row> =
        body.lines.iter().skip(hidden).flat_map(|line| output_rows(line.as_str(), width)).collect();
    append_omitted(&mut rows, before, width, detail);
    rows
}
