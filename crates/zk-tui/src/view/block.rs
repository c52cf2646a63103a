use zk_core::service::RunStatus;
use zk_view::{Block, Content, NoteLevel, PluginBlock, RunEnd, Text};

use super::call::{call_rows, running_rows};
use super::{counted, dollars, duration, thousands};
use crate::row::{Row, Style};
use crate::text::wrap;

/// Margin of what the agent does. What can be copied has none.
pub(crate) const MARGIN: &str = "  ";

/// Extent to which a block is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Parts that matter in passing.
    Short,
    /// All that the block holds.
    All,
}

impl Detail {
    pub(super) fn at_most(self, short: usize) -> usize {
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
    let width = width.saturating_sub(edge_columns(block));
    let rows = match &block.content {
        Content::User { text, attachments } => {
            let mut rows = prompt("› ", text, width);
            if *attachments > 0 {
                rows.push(Row::of(
                    Style::DIM,
                    &format!("  ({})", counted(u64::from(*attachments), "attachment")),
                ));
            }
            rows
        }
        Content::Injected { by, text } => prompt(&format!("› ({by}) "), text, width),
        Content::Thinking { text } => {
            let mut rows = vec![thought_row(text, None)];
            if detail == Detail::All {
                let edge = Row::of(Style::DIM, "    ");
                let style = Style { dim: true, italic: true, ..Style::PLAIN };
                let lines = text.as_str().trim().lines();
                rows.extend(lines.flat_map(|line| wrap(&Row::of(style, line), &edge, &edge, width)));
            }
            rows
        }
        Content::Answer { end, .. } => {
            let end = end.remark().map(|end| Row::of(Style::YELLOW, &format!("{MARGIN}({end})")));
            end.into_iter().collect()
        }
        Content::Call(call) => call_rows(call, width, detail),
        Content::Provider { text } => vec![Row::of(Style::DIM, &format!("{MARGIN}◦ {text}"))],
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
    Row::of(Style::DIM, &format!("{MARGIN}∴ thought{time}{what}"))
}

/// The rows of a block that may still change; of an answer none, since its text is drawn as Markdown. A call of the
/// conversation's own agent has run for `seconds`.
pub(crate) fn open_rows(block: &Block, width: usize, seconds: Option<u64>) -> Vec<Row> {
    if kind(block) == Kind::Hidden {
        return Vec::new();
    }
    let width = width.saturating_sub(edge_columns(block));
    let rows = match &block.content {
        Content::Call(call) => running_rows(call, width, seconds.filter(|_| block.agent.is_none())),
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

/// Returns the columns that the name of a sub-agent takes before its rows.
pub(super) fn edge_columns(block: &Block) -> usize {
    indented(block, vec![Row::default()]).first().map_or(0, Row::columns)
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
    let edge = Row::of(Style::PLAIN, MARGIN);
    wrap(&Row::of(style, line), &edge, &edge, width)
}

/// Draws how a run ended, and what it took.
fn run_end(end: &RunEnd, width: usize) -> Vec<Row> {
    let is_stopped = end.status == RunStatus::Aborted;
    let mut rows = match (end.status, &end.error) {
        (RunStatus::Completed | RunStatus::Aborted, _) => Vec::new(),
        (RunStatus::Error, None) => wrapped(Style::RED, "the run failed", width),
        (RunStatus::Error, Some(error)) => {
            error.as_str().lines().flat_map(|line| wrapped(Style::RED, line, width)).collect()
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
        rows.extend(wrapped(Style::YELLOW, "stopped", width));
    }
    rows
}
