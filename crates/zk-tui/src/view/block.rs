use zk_core::service::RunStatus;
use zk_view::{Block, Body, Call, CallState, Content, Form, NoteLevel, PluginBlock, RunEnd, Text};

use super::{attached, counted};
use crate::row::{Row, Style};
use crate::text::{clip, wrap};

/// Lines of a diff that are shown in short, of an output that ended well, and of one that failed.
const MAX_DIFF_ROWS: usize = 20;
const MAX_OUTPUT_ROWS: usize = 5;
const MAX_FAILED_OUTPUT_ROWS: usize = 15;

/// Extent to which a block is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Parts that matter in passing.
    Short,
    /// All that the block holds.
    All,
}

impl Detail {
    fn at_most(self, short: usize) -> usize {
        match self {
            Self::Short => short,
            Self::All => usize::MAX,
        }
    }
}

/// Relation of blocks to each other: those of one kind follow each other without a blank row, if they are
/// rows of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text that stands apart.
    Prose,
    /// Rows of a log: calls, notices.
    Log,
    /// Nothing is shown of it.
    Hidden,
}

pub(crate) fn kind(block: &Block) -> Kind {
    let is_own = block.agent.is_none();
    match &block.content {
        Content::Call(_) | Content::Note { .. } => Kind::Log,
        Content::Plugin(plugin) if plugin.title.is_empty() => Kind::Log,
        Content::Plugin(_) => Kind::Prose,
        Content::Provider { text } if is_own && !text.is_empty() => Kind::Log,
        Content::Thinking { .. } | Content::End(_) if is_own => Kind::Log,
        Content::Injected { by, text } if is_own && attached::folded(by, text).is_some() => Kind::Log,
        Content::User { .. }
        | Content::Injected { .. }
        | Content::Answer { .. }
        | Content::Summary { .. }
            if is_own =>
        {
            Kind::Prose
        }
        Content::Provider { .. }
        | Content::Thinking { .. }
        | Content::End(_)
        | Content::User { .. }
        | Content::Injected { .. }
        | Content::Answer { .. }
        | Content::Summary { .. } => Kind::Hidden,
    }
}

/// The rows of a closed block; of an answer, those under its text.
pub(crate) fn block_rows(block: &Block, width: usize, detail: Detail) -> Vec<Row> {
    if kind(block) == Kind::Hidden {
        return Vec::new();
    }
    let rows = match &block.content {
        Content::User { text, attachments } => {
            let mut rows = prompt("› ", text, width);
            rows.extend(attached::attachments(text, *attachments).map(|row| Row::of(Style::DIM, &row)));
            rows
        }
        Content::Injected { by, text } if detail == Detail::Short && attached::folded(by, text).is_some() => {
            let folded = attached::folded(by, text).unwrap_or_default();
            wrap(&Row::of(Style::DIM, &folded), &Row::default(), &Row::of(Style::DIM, "    "), width)
        }
        Content::Injected { by, text } => prompt(&format!("› ({by}) "), text, width),
        Content::Thinking { text } => {
            let mut rows = vec![thought_row(text, None)];
            if detail == Detail::All {
                let edge = Row::of(Style::DIM, "  ");
                let style = Style { dim: true, italic: true, ..Style::PLAIN };
                let lines = text.as_str().trim().lines();
                rows.extend(lines.flat_map(|line| wrap(&Row::of(style, line), &edge, &edge, width)));
            }
            rows
        }
        Content::Answer { end, .. } => {
            let end = end.remark().map(|end| Row::of(Style::YELLOW, &format!("({end})")));
            end.into_iter().collect()
        }
        Content::Call(call) => {
            let mut rows = vec![head(call)];
            rows.extend((detail == Detail::All).then(|| argument(call)).into_iter().flatten());
            rows.extend((detail == Detail::All).then(|| about(call)).flatten());
            rows.extend(outcome(call, detail));
            rows.extend(call.remarks.iter().map(remark));
            rows
        }
        Content::Provider { text } => vec![Row::of(Style::DIM, &format!("◦ {text}"))],
        Content::Summary { text } => prompt("(summary) ", text, width),
        Content::Plugin(plugin) => {
            let PluginBlock { source, title, body, .. } = &**plugin;
            let mut rows = Vec::new();
            if !title.is_empty() {
                rows.push(Row::of(Style::BOLD, title.as_str()));
            }
            for (at, line) in body.lines.iter().enumerate() {
                let source =
                    if at == 0 && title.is_empty() { format!("◦ {source}: ") } else { String::new() };
                rows.push(Row::of(Style::PLAIN, &source).with(Style::PLAIN, line.as_str()));
            }
            rows
        }
        Content::End(end) => run_end(end, width),
        Content::Note { level, text } => {
            let style = match level {
                NoteLevel::Info => Style::DIM,
                NoteLevel::Warning => Style::YELLOW,
            };
            text.as_str().lines().flat_map(|line| wrapped(style, line, width)).collect()
        }
    };
    indented(block, rows)
}

/// The row that reasoning folds to: how many seconds it took, where that is known, and how many words it has.
pub(crate) fn thought_row(text: &Text, seconds: Option<u64>) -> Row {
    let words = text.as_str().split_whitespace().count() as u64;
    let time =
        seconds.filter(|seconds| *seconds > 0).map_or(String::new(), |seconds| format!(" for {seconds} s"));
    let what = if words == 0 { String::new() } else { format!(", {}", counted(words, "word")) };
    Row::of(Style::DIM, &format!("∴ thought{time}{what}"))
}

/// The rows of a block that may still change; of an answer none, since its text is drawn as Markdown.
pub(crate) fn open_rows(block: &Block) -> Vec<Row> {
    if kind(block) == Kind::Hidden {
        return Vec::new();
    }
    let rows = match &block.content {
        Content::Call(call) => {
            let mut rows = vec![head(call)];
            rows.extend(call.progress.as_str().lines().map(output_row));
            rows
        }
        Content::User { .. }
        | Content::Injected { .. }
        | Content::Thinking { .. }
        | Content::Answer { .. }
        | Content::Provider { .. }
        | Content::Summary { .. }
        | Content::Plugin(_)
        | Content::End(_)
        | Content::Note { .. } => Vec::new(),
    };
    indented(block, rows)
}

/// Sub-agents stand to the right, under their name.
pub(super) fn indented(block: &Block, rows: Vec<Row>) -> Vec<Row> {
    let Some(agent) = &block.agent else { return rows };
    let depth = "  ".repeat(agent.depth.min(8) as usize);
    let name = Row::of(Style::DIM, &format!("{depth}[{}] ", agent.name));
    let rest = Row::of(Style::PLAIN, &format!("{depth}  "));
    let edge = |at| if at == 0 { &name } else { &rest };
    let with_edge = |(at, row): (usize, Row)| {
        let mut whole = edge(at).clone();
        whole.append(&row);
        whole
    };
    rows.into_iter().enumerate().map(with_edge).collect()
}

fn prompt(mark: &str, text: &Text, width: usize) -> Vec<Row> {
    let rest = Row::of(Style::PLAIN, "  ");
    let mut rows = Vec::new();
    for line in text.as_str().trim_end().split('\n') {
        let first = if rows.is_empty() { Row::of(Style::BOLD, mark) } else { rest.clone() };
        rows.extend(wrap(&Row::of(Style::BOLD, line), &first, &rest, width));
    }
    rows
}

fn wrapped(style: Style, line: &str, width: usize) -> Vec<Row> {
    wrap(&Row::of(style, line), &Row::default(), &Row::default(), width)
}

/// Draws how a run ended, and what it took.
fn run_end(end: &RunEnd, width: usize) -> Vec<Row> {
    let is_stopped = end.status == RunStatus::Aborted;
    let mut rows = match (end.status, &end.error) {
        (RunStatus::Completed | RunStatus::Aborted, _) => Vec::new(),
        (RunStatus::Error, None) => vec![Row::of(Style::RED, "the run failed")],
        (RunStatus::Error, Some(error)) => {
            error.as_str().lines().flat_map(|line| wrapped(Style::RED, line, width)).collect()
        }
    };
    if end.turns > 0 {
        let turns = counted(u64::from(end.turns), "turn");
        let mut text = format!("{turns} · {} in, {} out", end.tokens_read, end.tokens_written);
        if let Some(cost) = end.cost.filter(|cost| *cost > 0.0) {
            text += &format!(" · {}${cost:.4}", if end.cost_is_partial { "at least " } else { "" });
        }
        text += &format!(" · {:.1} s", end.duration_ms as f64 / 1e3);
        let row = if is_stopped {
            Row::of(Style::YELLOW, "stopped").with(Style::DIM, " · ")
        } else {
            Row::default()
        };
        rows.push(row.with(Style::DIM, &text));
    } else if is_stopped {
        rows.push(Row::of(Style::YELLOW, "stopped"));
    }
    rows
}

/// A line of a log may be of any length; what is left out can be asked for.
pub(super) const LINE: usize = 300;

fn head(call: &Call) -> Row {
    let headline = call.headline();
    // A command is whole, so that a copy of it is one; the terminal breaks it.
    let text = if call.argument.is_some() { headline.into_owned() } else { clip(&headline, LINE) };
    Row::of(Style::CYAN, &format!("● {text}"))
}

/// All lines of what a call was given, where there are more than its head shows.
fn argument(call: &Call) -> Vec<Row> {
    let lines = || call.argument.iter().flat_map(|argument| argument.as_str().lines());
    if lines().nth(1).is_none() {
        return Vec::new();
    }
    lines().map(|line| Row::of(Style::PLAIN, &format!("  │ {line}"))).collect()
}

/// Draws the kind of work of a call, and its places.
fn about(call: &Call) -> Option<Row> {
    let line = call.line.map(|line| format!(":{line}")).unwrap_or_default();
    let mut places = call.locations.iter().map(Text::to_string);
    let first = places.next().map(|first| format!("{first}{line}"));
    let places: Vec<String> = first.into_iter().chain(places).collect();
    let places = if places.is_empty() { String::new() } else { format!(" · {}", places.join(", ")) };
    (!call.kind.is_other())
        .then(|| Row::of(Style::DIM, &format!("  {}{}", call.kind.name(), clip(&places, LINE))))
}

fn remark(text: &Text) -> Row {
    Row::of(Style::DIM, &format!("  ↳ {}", clip(text.as_str(), LINE)))
}

/// Draws the outcome of a call: what happened first, then the end of its output or what it changed.
fn outcome(call: &Call, detail: Detail) -> Vec<Row> {
    let not_run = |what: &str| {
        let why = call.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        vec![Row::of(Style::YELLOW, &format!("  ✗ {what}{}", clip(&why, LINE)))]
    };
    match (call.state, &call.body) {
        (CallState::Refused, _) => not_run("refused"),
        (CallState::Parked, _) => not_run("waits for approval"),
        (CallState::Skipped | CallState::NotRun, _) => not_run("not run"),
        (CallState::OutcomeUnknown, _) => not_run("cut off: its effects are unknown"),
        (CallState::Invalid, _) => not_run("called with invalid arguments"),
        (CallState::Unknown, _) => not_run("there is no such tool"),
        (CallState::Writing | CallState::Waiting | CallState::Running, _) | (_, None) => Vec::new(),
        (CallState::Done, Some(body)) => result(body, call.elapsed_ms, false, detail),
        (CallState::Failed, Some(body)) => result(body, call.elapsed_ms, true, detail),
    }
}

fn result(body: &Body, elapsed_ms: Option<u64>, failed: bool, detail: Detail) -> Vec<Row> {
    let (style, sign) = if failed { (Style::RED, "✗") } else { (Style::DIM, "✓") };
    let first = |text: &str| Row::of(style, &format!("  {sign} {}", clip(text, LINE)));
    let long = elapsed_ms.filter(|ms| *ms >= 1000);
    let took = long.map_or(String::new(), |ms| format!(" · {:.1} s", ms as f64 / 1e3));
    let shown = detail.at_most(if failed { MAX_FAILED_OUTPUT_ROWS } else { MAX_OUTPUT_ROWS });
    match (&body.form, &body.lines[..]) {
        (Form::Line | Form::Lines, [line]) => vec![first(line.as_str())],
        (Form::Diff { added, removed, .. }, _) if !failed => {
            let mut rows = vec![first(&format!("+{added} -{removed}"))];
            rows.extend(diff(body, added + removed, detail.at_most(MAX_DIFF_ROWS)));
            rows
        }
        (Form::Table | Form::Lines, _) if detail == Detail::All => {
            let mut rows = vec![first(&format!("{}{took}", counted(body.total_lines, "line")))];
            rows.extend(end_of(body, shown));
            rows
        }
        (Form::Table, _) if !failed => vec![first(&format!("{}{took}", counted(body.total_lines, "row")))],
        (Form::Command { exit }, _) => {
            let ended = if failed { format!("{exit} · ") } else { String::new() };
            let printed = match body.total_lines {
                0 => "no output".to_owned(),
                lines => counted(lines, "line"),
            };
            let mut rows = vec![first(&format!("{ended}{printed}{took}"))];
            rows.extend(end_of(body, shown));
            rows
        }
        (Form::Lines | Form::Line | Form::Diff { .. } | Form::Table, _) => {
            let mut rows = vec![first(&format!("{}{took}", counted(body.total_lines, "line")))];
            if failed {
                // An error is text for the model: its beginning says what failed.
                let kept = body.lines.len().min(shown);
                rows.extend(body.lines.iter().take(kept).map(|line| output_row(line.as_str())));
                rows.extend(more(body.total_lines.saturating_sub(kept as u64), "below"));
            }
            rows
        }
    }
}

fn output_row(line: &str) -> Row {
    Row::of(Style::DIM, &format!("    {}", clip(line, LINE)))
}

fn more(hidden: u64, place: &str) -> Option<Row> {
    let text = format!("    … {} {place} · /show", counted(hidden, "more line"));
    (hidden > 0).then(|| Row::of(Style::DIM, &text))
}

/// The last lines of an output, after how many there are before them.
fn end_of(body: &Body, shown: usize) -> Vec<Row> {
    let hidden = body.lines.len().saturating_sub(shown);
    let before = body.total_lines.saturating_sub((body.lines.len() - hidden) as u64);
    let rows = body.lines.iter().skip(hidden).map(|line| output_row(line.as_str()));
    more(before, "above").into_iter().chain(rows).collect()
}

/// The lines of a diff that say what changed, with their numbers.
fn diff(body: &Body, changes: u64, most: usize) -> Vec<Row> {
    let mut rows = super::diff::changes(body.lines.iter().map(Text::as_str), most);
    let hidden = changes.saturating_sub(rows.len() as u64);
    rows.extend(more(hidden, "below"));
    rows
}
