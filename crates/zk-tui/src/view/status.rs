use zk_view::{
    Activity, AgentRow, AgentState, ContextGauge, GaugeColour, JobRow, JobState, Queued, Status, Text,
};

use super::counted;
use crate::row::{Row, Style};

/// Texts of the queue that are shown.
const MAX_QUEUE_ROWS: usize = 3;

/// Sub-agents, and commands in the background, that are shown.
const MAX_AGENT_ROWS: usize = 4;
const MAX_JOB_ROWS: usize = 3;

/// Facts about the model that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Name of the model.
    pub name: String,
    /// Word for what runs without asking.
    pub mode: String,
}

/// Adds to a row how full the context is, how much that matters, and how often it was compacted.
fn gauge(row: Row, tokens: Option<u64>, gauge: Option<&ContextGauge>) -> Row {
    let Some(gauge) = gauge else {
        return match tokens {
            Some(tokens) => row.with(Style::DIM, &format!(" · context {}", thousands(tokens))),
            None => row,
        };
    };
    let style = match gauge.colour {
        GaugeColour::Green => Style::DIM,
        GaugeColour::Yellow => Style::YELLOW,
        GaugeColour::Red => Style::RED,
    };
    let text = format!("context {} % of {}", gauge.percent, thousands(gauge.usable));
    let row = row.with(Style::DIM, " · ").with(style, &text);
    match gauge.compactions {
        0 => row,
        1 => row.with(Style::DIM, " · compacted"),
        times => row.with(Style::DIM, &format!(" · compacted {times} times")),
    }
}

/// Draws the row that is there while nothing goes on: the model, how full its context is, what was spent, the
/// mode.
fn idle_row(status: &Status, model: &ModelFacts, spent: f64) -> Option<Row> {
    if model.name.is_empty() {
        return None;
    }
    let mut row = gauge(Row::of(Style::DIM, &model.name), status.context_tokens, status.gauge.as_ref());
    if spent > 0.0 {
        row = row.with(Style::DIM, &format!(" · ${spent:.4}"));
    }
    if !model.mode.is_empty() {
        row = row.with(Style::DIM, &format!(" · mode {}", model.mode));
    }
    Some(row)
}

/// Describes a sub-agent in a few words: its state, how full its context is, its cost.
pub(crate) fn agent_facts(agent: &AgentRow) -> String {
    let mut facts: Vec<String> = match agent.state {
        AgentState::Running => vec!["runs".to_owned()],
        AgentState::Done => vec!["done".to_owned()],
        AgentState::Failed => vec!["failed".to_owned()],
    };
    match (&agent.gauge, agent.context_tokens) {
        (Some(gauge), _) => facts.push(format!("context {} %", gauge.percent)),
        (None, Some(tokens)) => facts.push(format!("context {}", thousands(tokens))),
        (None, None) => {}
    }
    facts.extend(agent.cost.filter(|cost| *cost > 0.0).map(|cost| format!("${cost:.4}")));
    facts.join(" · ")
}

/// The sub-agents that work: what they took, and what they were asked.
pub(crate) fn agent_rows(agents: &[AgentRow]) -> Vec<Row> {
    let running = || agents.iter().filter(|agent| agent.state == AgentState::Running);
    let row = |agent: &AgentRow| {
        let depth = "  ".repeat(agent.depth.clamp(1, 8) as usize - 1);
        let facts = agent_facts(agent);
        let parts = [agent.name.as_str(), facts.as_str(), agent.task.as_str()];
        let text: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Row::of(Style::CYAN, &format!("{depth}⋯ ")).with(Style::DIM, &text.join(" · "))
    };
    let mut rows: Vec<Row> = running().take(MAX_AGENT_ROWS).map(row).collect();
    let hidden = running().count().saturating_sub(MAX_AGENT_ROWS) as u64;
    if hidden > 0 {
        rows.push(Row::of(Style::DIM, &format!("  … {} work", counted(hidden, "more sub-agent"))));
    }
    rows
}

/// The commands that run in the background.
pub(crate) fn job_rows(jobs: &[JobRow]) -> Vec<Row> {
    let running = || jobs.iter().filter(|job| !matches!(job.state, JobState::Ended { .. }));
    let row = |job: &JobRow| {
        let ending = if job.state == JobState::Ending { " · is asked to end" } else { "" };
        Row::of(Style::CYAN, "⚙ ").with(Style::DIM, &format!("{} · {}{ending}", job.id, job.command))
    };
    let mut rows: Vec<Row> = running().take(MAX_JOB_ROWS).map(row).collect();
    let hidden = running().count().saturating_sub(MAX_JOB_ROWS) as u64;
    if hidden > 0 {
        rows.push(Row::of(Style::DIM, &format!("  … {} · /jobs", counted(hidden, "more job"))));
    }
    rows
}

/// Draws what goes on now, in which model and for how long, and what the session costs so far: what its
/// earlier runs `spent`, and this one. Its hint comes first, so that a narrow terminal cuts it last.
pub(crate) fn status_row(status: &Status, model: &ModelFacts, spent: f64) -> Option<Row> {
    let words = match &status.activity {
        Activity::Idle => return idle_row(status, model, spent),
        Activity::Stopping => return Some(Row::of(Style::DIM, STOPPING)),
        activity => ActivityWords::of(activity, status.activity_ms, true),
    };
    let tokens = written(status.tokens_written);
    let text = format!("Esc stops · {}{}{tokens}", words.doing, words.detail);
    let mut row = Row::of(Style::DIM, &text);
    row = gauge(row, status.context_tokens, status.gauge.as_ref());
    let cost = spent + status.cost.unwrap_or_default();
    if cost > 0.0 {
        row = row.with(Style::DIM, &format!(" · ${cost:.4}"));
    }
    if !model.name.is_empty() {
        row = row.with(Style::DIM, &format!(" · {}", model.name));
    }
    if let Some(ms) = status.run_ms.filter(|ms| *ms >= 1000) {
        row = row.with(Style::DIM, &format!(" · run {}", rounded(ms)));
    }
    Some(row)
}

/// Line of a run that is being stopped.
const STOPPING: &str = "stopping …";

/// Words for what goes on now.
struct ActivityWords {
    /// Activity, and for how long it has gone on.
    doing: String,
    /// Details of the activity, behind a count of tokens where lines have one.
    detail: String,
}

impl ActivityWords {
    /// Words for an activity that has gone on for `ms`; Enter ends the wait for another attempt if somebody `can_hurry`.
    fn of(activity: &Activity, ms: u64, can_hurry: bool) -> Self {
        let seconds = ms / 1000;
        let doing = match activity {
            Activity::Idle => String::new(),
            Activity::Stopping => STOPPING.to_owned(),
            Activity::Asking => "waiting for you".to_owned(),
            Activity::Starting => "starting".to_owned(),
            Activity::Compacting { before } => format!("making room: {before} tokens, {seconds} s"),
            Activity::Answering => format!("answering, {seconds} s"),
            Activity::Waiting { model } => format!("waiting for {model}, {seconds} s"),
            Activity::Silent { model, idle_ms, limit_ms, keep_alives } => {
                silence(model, *idle_ms, *limit_ms, *keep_alives)
            }
            Activity::Retrying { left_ms: 0, .. } => "trying now".to_owned(),
            Activity::Retrying { attempt, left_ms, .. } => {
                let verb = if *attempt == 0 { "trying" } else { "trying again" };
                let hurry = if can_hurry { " · Enter tries now" } else { "" };
                let why = activity.failed_attempt().unwrap_or_default();
                format!("{verb} in {} s{hurry} · {why}", left_ms / 1000)
            }
            Activity::Thinking => format!("thinking, {seconds} s"),
            Activity::Writing { tool } => format!("writing a call of {tool}, {seconds} s"),
            Activity::Running { calls, batch } => {
                let first = calls.first().map_or("", |call| call.as_str());
                let more = match calls.len() {
                    0 | 1 => String::new(),
                    calls => format!(" and {} more", calls - 1),
                };
                let batch = batch.describe().map(|batch| format!(" · {batch}")).unwrap_or_default();
                return Self { doing: format!("{seconds} s"), detail: format!("{batch} · {first}{more}") };
            }
        };
        Self { doing, detail: String::new() }
    }
}

/// The silence of a server in words.
pub(crate) fn silence(model: &Text, idle_ms: u64, limit_ms: u64, keep_alives: bool) -> String {
    let what = if keep_alives { ", only keep-alives" } else { "" };
    format!("waiting for {model}, {} s{what} (limit {})", idle_ms / 1000, rounded(limit_ms))
}

/// The tokens that the model wrote, behind something else.
fn written(tokens: u64) -> String {
    if tokens == 0 { String::new() } else { format!(" · {tokens} tokens") }
}

/// Describes what goes on now in a line of its own, whose hint comes first, so that a narrow terminal cuts it last; nothing
/// where what happens is in sight.
#[must_use]
pub fn status_line(status: &Status, stops: &str, has_keys: bool) -> Option<String> {
    let tokens = match &status.activity {
        Activity::Idle | Activity::Answering | Activity::Asking | Activity::Retrying { left_ms: 0, .. } => {
            return None;
        }
        Activity::Stopping => return Some(STOPPING.to_owned()),
        // They are about a server that writes nothing.
        Activity::Starting | Activity::Silent { .. } | Activity::Retrying { .. } => String::new(),
        Activity::Compacting { .. }
        | Activity::Waiting { .. }
        | Activity::Thinking
        | Activity::Writing { .. }
        | Activity::Running { .. } => written(status.tokens_written),
    };
    let words = ActivityWords::of(&status.activity, status.activity_ms, has_keys);
    Some(format!("{stops} stops · {}{tokens}{}", words.doing, words.detail))
}

/// The texts that wait: those that interrupt the run, and those that wait for its end; while nothing runs, for the end of the
/// next one.
pub(crate) fn queue_rows(queue: &[Queued], is_running: bool) -> Vec<Row> {
    let mut rows: Vec<Row> = queue
        .iter()
        .take(MAX_QUEUE_ROWS)
        .map(|queued| {
            let mark = match (queued.steers, is_running) {
                (true, true) => "↳ steers: ",
                (false, true) => "⏎ next: ",
                (true | false, false) => "held (Enter sends it, Alt-↑ edits it): ",
            };
            Row::of(Style::YELLOW, mark).with(Style::DIM, queued.text.as_str())
        })
        .collect();
    if queue.len() > MAX_QUEUE_ROWS {
        let hidden = counted((queue.len() - MAX_QUEUE_ROWS) as u64, "more text");
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
