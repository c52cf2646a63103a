use zk_core::model::CallKind;
use zk_core::service::RunStatus;
use zk_view::{AnswerEnd, Block, Call, CallState, Content, NoteLevel, PluginBlock, RunEnd, Text};

use super::call::{call_rows, hung, running_rows};
use super::detail::{Detail, MARGIN};
use super::drawn::content_rows;
use super::{attached, counted, dollars, duration, thousands};
use crate::row::{Row, Style};
use crate::text::wrap;

/// Indentation of the further rows of a notice, below its text.
const UNDER_NOTICE: &str = "    ";

/// Spacing class of a block: consecutive log rows of one kind have no blank row between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text with blank rows around.
    Prose,
    /// Rows of a log: calls, notices.
    Log,
    /// Line that a person typed, above the rows that it led to: a blank row before and none after.
    Echo,
    /// Not shown.
    Hidden,
}

impl Kind {
    /// Whether a blank row separates rows of this kind from earlier rows of kind `last`.
    pub(crate) fn is_apart_from(self, last: Self) -> bool {
        match (last, self) {
            (Self::Hidden, _) | (_, Self::Hidden) | (Self::Log | Self::Echo, Self::Log) => false,
            (Self::Prose, _) | (_, Self::Prose | Self::Echo) => true,
        }
    }
}

pub(crate) fn kind_of(block: &Block) -> Kind {
    // A sub-agent's conversation is shown in the pager.
    if block.agent.is_some() {
        return Kind::Hidden;
    }
    match &block.content {
        Content::Call(call) if is_hidden_by_question(call) => Kind::Hidden,
        Content::Call(_) | Content::Note { .. } => Kind::Log,
        Content::Plugin(plugin) if plugin.title.is_empty() => Kind::Log,
        Content::Plugin(_) => Kind::Prose,
        Content::Provider { text } if text.is_empty() => Kind::Hidden,
        Content::Provider { .. } | Content::Thinking { .. } | Content::End(_) => Kind::Log,
        Content::Injected { by, text }
            if attached::is_notice(by) || attached::folded_row(by, text).is_some() =>
        {
            Kind::Log
        }
        Content::User { .. }
        | Content::Injected { .. }
        | Content::Answer { .. }
        | Content::Summary { .. } => Kind::Prose,
    }
}

/// Whether a call is hidden behind its question.
fn is_hidden_by_question(call: &Call) -> bool {
    call.kind == CallKind::Ask && call.state == CallState::Running
}

/// Rows of a closed block; for an answer, those under its text.
pub(crate) fn block_rows(block: &Block, width: usize, detail: Detail) -> Vec<Row> {
    if kind_of(block) == Kind::Hidden {
        return Vec::new();
    }
    match &block.content {
        Content::User { text, command: Some(command), .. } => {
            let mut rows = prompt_rows("› ", command, width);
            match detail {
                Detail::Short => {
                    let lines = counted(text.as_str().trim_end().lines().count() as u64, "line");
                    rows.push(Row::of(Style::DIM, &format!("{MARGIN}its prompt: {lines} · Ctrl-T")));
                }
                Detail::All => rows.extend(prompt_rows(MARGIN, text, width)),
            }
            rows
        }
        Content::User { text, attachments, command: None } => {
            let mut rows = match detail {
                Detail::Short => folded_prompt_rows("› ", text, width),
                Detail::All => prompt_rows("› ", text, width),
            };
            rows.extend(attached::attachment_row(text, *attachments).map(|row| Row::of(Style::DIM, &row)));
            rows
        }
        Content::Injected { by, text }
            if detail == Detail::Short && attached::folded_row(by, text).is_some() =>
        {
            let folded = attached::folded_row(by, text).unwrap_or_default();
            wrap(&Row::of(Style::DIM, &folded), &Row::default(), &Row::of(Style::DIM, "    "), width)
        }
        Content::Injected { by, text } if attached::is_notice(by) => injected_rows(by, text, width, detail),
        Content::Injected { by, text } => prompt_rows(&format!("› ({by}) "), text, width),
        Content::Thinking { text, thought_ms } => {
            let mut rows = vec![thought_row(thought_ms.map(|ms| ms / 1000))];
            if detail == Detail::All {
                let edge = Row::of(Style::DIM, "    ");
                let style = Style { dim: true, italic: true, ..Style::PLAIN };
                let lines = text.as_str().trim().lines();
                rows.extend(lines.flat_map(|line| wrap(&Row::of(style, line), &edge, &edge, width)));
            }
            rows
        }
        Content::Answer { end, .. } => {
            // The end of the run says that it was stopped.
            let remark = end.remark().filter(|_| *end != AnswerEnd::Stopped);
            let end = remark.map(|end| Row::of(Style::YELLOW, &format!("{MARGIN}({end})")));
            end.into_iter().collect()
        }
        Content::Call(call) => match content_rows(call, width, detail) {
            Some(rows) => rows,
            None => call_rows(call, width, detail),
        },
        Content::Provider { text } => {
            hung(&Row::of(Style::DIM, &format!("◦ {text}")), MARGIN, UNDER_NOTICE, width)
        }
        Content::Summary { text } => prompt_rows("(summary) ", text, width),
        Content::Plugin(plugin) => {
            let PluginBlock { source, title, body, .. } = &**plugin;
            let mut rows = Vec::new();
            if !title.is_empty() {
                rows.extend(hung(&Row::of(Style::BOLD, title.as_str()), MARGIN, MARGIN, width));
                let lines = body.lines.iter();
                rows.extend(
                    lines.flat_map(|line| hung(&Row::of(Style::PLAIN, line.as_str()), MARGIN, MARGIN, width)),
                );
                return rows;
            }
            // A block without a title is a notice.
            for (at, line) in body.lines.iter().enumerate() {
                let (source, first) =
                    if at == 0 { (format!("◦ {source}: "), MARGIN) } else { (String::new(), UNDER_NOTICE) };
                let line = Row::of(Style::PLAIN, &source).with(Style::PLAIN, line.as_str());
                rows.extend(hung(&line, first, UNDER_NOTICE, width));
            }
            rows
        }
        Content::End(end) => run_end_rows(end, width),
        Content::Note { level, text } => {
            let style = match level {
                NoteLevel::Info => Style::DIM,
                NoteLevel::Warning => Style::YELLOW,
            };
            text.as_str().lines().flat_map(|line| wrapped_rows(style, line, width)).collect()
        }
    }
}

/// Row of folded reasoning, with its duration if known.
fn thought_row(seconds: Option<u64>) -> Row {
    let text = match seconds.filter(|seconds| *seconds > 0) {
        Some(seconds) => format!("Thought for {seconds} s"),
        None => "Thought".to_owned(),
    };
    Row::of(Style::DIM, &format!("{MARGIN}{text}"))
}

/// Rows of an open block; none for an answer, whose text is drawn as Markdown. `seconds` is the running time
/// of a call of the main agent.
pub(crate) fn open_rows(block: &Block, width: usize, seconds: Option<u64>) -> Vec<Row> {
    if kind_of(block) == Kind::Hidden {
        return Vec::new();
    }
    match &block.content {
        Content::Call(call) => running_rows(call, width, seconds),
        Content::User { .. }
        | Content::Injected { .. }
        | Content::Thinking { .. }
        | Content::Answer { .. }
        | Content::Provider { .. }
        | Content::Summary { .. }
        | Content::Plugin(_)
        | Content::End(_)
        | Content::Note { .. } => Vec::new(),
    }
}

/// Maximum number of rows of a prompt; one with more is folded to [`FOLDED_PROMPT_ROWS`].
const MAX_PROMPT_ROWS: usize = 20;

/// Rows that are shown of a folded prompt, such as a pasted log.
const FOLDED_PROMPT_ROWS: usize = 8;

fn folded_prompt_rows(mark: &str, text: &Text, width: usize) -> Vec<Row> {
    let mut rows = prompt_rows(mark, text, width);
    let hidden = rows.len().saturating_sub(FOLDED_PROMPT_ROWS) as u64;
    if rows.len() > MAX_PROMPT_ROWS {
        rows.truncate(FOLDED_PROMPT_ROWS);
        rows.push(Row::of(Style::DIM, &format!("{MARGIN}… {} · Ctrl-T", counted(hidden, "more row"))));
    }
    rows
}

fn prompt_rows(mark: &str, text: &Text, width: usize) -> Vec<Row> {
    let rest = Row::of(Style::PLAIN, "  ");
    let mut rows = Vec::new();
    for line in text.as_str().trim_end().split('\n') {
        let first = if rows.is_empty() { Row::of(Style::BOLD, mark) } else { rest.clone() };
        rows.extend(wrap(&Row::of(Style::BOLD, line), &first, &rest, width));
    }
    rows
}

/// Rows of a message that zk or a plugin sent to the model: a notice, of which the beginning is shown.
fn injected_rows(by: &Text, text: &Text, width: usize, detail: Detail) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in text.as_str().trim_end().lines() {
        let (source, first) =
            if rows.is_empty() { (format!("◦ {by}: "), MARGIN) } else { (String::new(), UNDER_NOTICE) };
        rows.extend(hung(&Row::of(Style::DIM, &format!("{source}{line}")), first, UNDER_NOTICE, width));
    }
    let hidden = rows.len().saturating_sub(FOLDED_PROMPT_ROWS) as u64;
    if detail == Detail::Short && hidden > 0 {
        rows.truncate(FOLDED_PROMPT_ROWS);
        rows.push(Row::of(Style::DIM, &format!("{UNDER_NOTICE}… {} · Ctrl-T", counted(hidden, "more row"))));
    }
    rows
}

fn wrapped_rows(style: Style, line: &str, width: usize) -> Vec<Row> {
    let edge = Row::of(Style::PLAIN, MARGIN);
    wrap(&Row::of(style, line), &edge, &edge, width)
}

/// Draws the end of a run, with cost and duration.
fn run_end_rows(end: &RunEnd, width: usize) -> Vec<Row> {
    let is_stopped = end.status == RunStatus::Aborted;
    let mut rows = match (end.status, &end.error) {
        (RunStatus::Completed | RunStatus::Aborted, _) => Vec::new(),
        (RunStatus::Error, None) => wrapped_rows(Style::RED, "the run failed", width),
        (RunStatus::Error, Some(error)) => {
            error.as_str().lines().flat_map(|line| wrapped_rows(Style::RED, line, width)).collect()
        }
    };
    if end.turns > 0 {
        let turns = counted(u64::from(end.turns), "turn");
        let mut text =
            format!("{turns} · {} in, {} out", thousands(end.tokens_read), thousands(end.tokens_written));
        if let Some(cost) = end.cost.filter(|cost| *cost > 0.0) {
            text += &format!(" · {}{}", if end.cost_is_partial { "at least " } else { "" }, dollars(cost));
        }
        text += &format!(" · {}", duration(end.duration_ms));
        let margin = Row::of(Style::DIM, MARGIN);
        let row =
            if is_stopped { margin.with(Style::YELLOW, "stopped").with(Style::DIM, " · ") } else { margin };
        rows.push(row.with(Style::DIM, &text));
    } else if is_stopped {
        rows.extend(wrapped_rows(Style::YELLOW, "stopped", width));
    }
    rows
}
