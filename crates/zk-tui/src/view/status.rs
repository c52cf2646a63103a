use zk_view::{Activity, AgentRow, AgentState, Queued, Status};

use super::counted;
use crate::row::Row;
use crate::style::Style;

/// Texts of the queue that are shown.
const QUEUE: usize = 3;

/// Sub-agents that are shown.
const AGENTS: usize = 4;

/// What is known of the model that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Its name.
    pub name: String,
    /// Tokens of its context window.
    pub window: Option<u64>,
    /// What runs without asking, in a word.
    pub mode: String,
}

/// Parts of a context window, in percent, from which on it is shown as filling up, and as full.
const FILLING: u64 = 70;
const FULL: u64 = 90;

/// How full the context is, and how much that matters.
fn gauge(tokens: Option<u64>, window: Option<u64>) -> Option<(Style, String)> {
    let tokens = tokens?;
    let Some(window) = window.filter(|window| *window > 0) else {
        return Some((Style::DIM, format!("context {}", thousands(tokens))));
    };
    let percent = tokens.saturating_mul(100) / window;
    let style = match percent {
        FULL.. => Style::RED,
        FILLING.. => Style::YELLOW,
        _ => Style::DIM,
    };
    Some((style, format!("context {percent} % of {}", thousands(window))))
}

/// What is there while nothing goes on: the model, how full its context is, the mode.
fn idle_row(status: &Status, model: &ModelFacts) -> Option<Row> {
    if model.name.is_empty() {
        return None;
    }
    let mut row = Row::of(Style::DIM, &model.name);
    if let Some((style, text)) = gauge(status.context_tokens, model.window) {
        row = row.with(Style::DIM, " · ").with(style, &text);
    }
    if !model.mode.is_empty() {
        row = row.with(Style::DIM, &format!(" · mode {}", model.mode));
    }
    Some(row)
}

/// The sub-agents that work: what they were asked, and what they took.
pub(crate) fn agent_rows(agents: &[AgentRow]) -> Vec<Row> {
    let running = || agents.iter().filter(|agent| agent.state == AgentState::Running);
    let row = |agent: &AgentRow| {
        let depth = "  ".repeat(agent.depth.clamp(1, 8) as usize - 1);
        let mut text = format!("{}: {}", agent.name, agent.task);
        if let Some(tokens) = agent.context_tokens {
            text = format!("{} · context {} · {}", agent.name, thousands(tokens), agent.task);
        }
        if let Some(cost) = agent.cost.filter(|cost| *cost > 0.0) {
            text = format!("${cost:.4} · {text}");
        }
        Row::of(Style::CYAN, &format!("{depth}⋯ ")).with(Style::DIM, &text)
    };
    let mut rows: Vec<Row> = running().take(AGENTS).map(row).collect();
    let hidden = running().count().saturating_sub(AGENTS) as u64;
    if hidden > 0 {
        rows.push(Row::of(Style::DIM, &format!("  … {} work", counted(hidden, "more sub-agent"))));
    }
    rows
}

/// What goes on now. Its hint comes first, so that a narrow terminal cuts it last.
pub(crate) fn status_row(status: &Status, model: &ModelFacts) -> Option<Row> {
    let seconds = status.activity_ms / 1000;
    let what = match &status.activity {
        Activity::Idle => return idle_row(status, model),
        Activity::Stopping => return Some(Row::of(Style::DIM, "stopping …")),
        Activity::Asking => "waiting for you".to_owned(),
        Activity::Starting => "starting".to_owned(),
        Activity::Compacting { before } => format!("making room: {before} tokens, {seconds} s"),
        Activity::Answering => format!("answering, {seconds} s"),
        Activity::Waiting { model } => format!("waiting for {model}, {seconds} s"),
        Activity::Silent { model, idle_ms, limit_ms, keep_alives } => {
            let what = if *keep_alives { ", only keep-alives" } else { "" };
            format!("waiting for {model}, {} s{what} (limit {})", idle_ms / 1000, rounded(*limit_ms))
        }
        Activity::Retrying { left_ms: 0, .. } => "trying now".to_owned(),
        Activity::Retrying { attempt, left_ms, why, .. } => {
            let verb = if *attempt == 0 { "trying" } else { "trying again" };
            format!("{verb} in {} s · Enter tries now · {why}", left_ms / 1000)
        }
        Activity::Thinking => format!("thinking, {seconds} s"),
        Activity::Writing { tool } => format!("writing a call of {tool}, {seconds} s"),
        Activity::Running { calls } => {
            let first = calls.first().map_or("", |call| call.as_str());
            let more = match calls.len() {
                0 | 1 => String::new(),
                calls => format!(" and {} more", calls - 1),
            };
            format!("{seconds} s · {first}{more}")
        }
    };
    let mut text = format!("Esc stops · {what}");
    if status.tokens_written > 0 {
        text += &format!(" · {} tokens", status.tokens_written);
    }
    let mut row = Row::of(Style::DIM, &text);
    if let Some((style, text)) = gauge(status.context_tokens, model.window) {
        row = row.with(Style::DIM, " · ").with(style, &text);
    }
    if let Some(cost) = status.cost.filter(|cost| *cost > 0.0) {
        row = row.with(Style::DIM, &format!(" · ${cost:.4}"));
    }
    Some(row)
}

/// The texts that wait: those that interrupt the run, and those that wait for its end.
pub(crate) fn queue_rows(queue: &[Queued]) -> Vec<Row> {
    let mut rows: Vec<Row> = queue
        .iter()
        .take(QUEUE)
        .map(|queued| {
            let mark = if queued.steers { "↳ steers: " } else { "⏎ next: " };
            Row::of(Style::YELLOW, mark).with(Style::DIM, queued.text.as_str())
        })
        .collect();
    if queue.len() > QUEUE {
        let hidden = counted((queue.len() - QUEUE) as u64, "more text");
        rows.push(Row::of(Style::DIM, &format!("  … {hidden} waits · Alt-Up takes back the last one")));
    }
    rows
}

fn thousands(tokens: u64) -> String {
    match tokens {
        0..1000 => tokens.to_string(),
        1000..1_000_000 if tokens.is_multiple_of(1000) => format!("{}k", tokens / 1000),
        1000..1_000_000 => format!("{:.1}k", tokens as f64 / 1e3),
        _ if tokens.is_multiple_of(1_000_000) => format!("{}M", tokens / 1_000_000),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}

/// A duration in the larger of the units that say it well.
fn rounded(ms: u64) -> String {
    match (ms + 500) / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}
