//! Rows about the agent's present work, above the composer.

use std::borrow::Cow;
use std::sync::Arc;

use zk_core::model::{CallKind, CheckState};
use zk_view::{Activity, AgentRow, AgentState, Block, CallState, CheckRow, Content, Queued, View};

use super::{counted, dollars, thousands, with_facts};
use crate::row::{Row, Style};
use crate::text::clip;

/// Maximum number of queued texts that are shown.
const MAX_QUEUE_ROWS: usize = 3;

/// Maximum number of sub-agents that are shown.
const MAX_AGENT_ROWS: usize = 4;

/// Maximum number of rows of a to-do list that does not fit in one.
const MAX_CHECK_ROWS: usize = 5;

/// Rows of the to-do list: one row if it fits, otherwise the items around the one in progress. None for a
/// completed list, unless a run is active.
pub(crate) fn checklist_rows(items: &[CheckRow], is_running: bool, width: usize) -> Vec<Row> {
    let is_done = items.iter().all(|item| item.state == CheckState::Done);
    if items.is_empty() || (is_done && !is_running) {
        return Vec::new();
    }
    let style = |item: &CheckRow| match item.state {
        CheckState::Open => Style::PLAIN,
        CheckState::Current => Style::BOLD,
        CheckState::Done => Style::DIM,
    };
    let text = |item: &CheckRow| format!("{} {}", item.state.mark(), item.text);
    let one = items.iter().fold(Row::default(), |row, item| {
        let gap = if row.is_blank() { "  " } else { "   " };
        row.with(Style::PLAIN, gap).with(style(item), &text(item))
    });
    if one.columns() <= width {
        return vec![one];
    }
    let row = |item: &CheckRow| Row::of(Style::PLAIN, "  ").with(style(item), &text(item));
    if items.len() <= MAX_CHECK_ROWS {
        return items.iter().map(row).collect();
    }
    let shown = MAX_CHECK_ROWS - 1;
    let is_state = |state| move |item: &CheckRow| item.state == state;
    let current = items.iter().position(is_state(CheckState::Current));
    let current = current.or_else(|| items.iter().position(is_state(CheckState::Open))).unwrap_or(0);
    let from = current.saturating_sub(1).min(items.len() - shown);
    let mut rows: Vec<Row> = items.iter().skip(from).take(shown).map(row).collect();
    rows.push(Row::of(Style::DIM, &format!("  +{} more", items.len() - shown)));
    rows
}

/// Facts about a sub-agent in a few words: working time or completion, and cost.
pub(crate) fn agent_facts(agent: &AgentRow) -> String {
    facts_after("sub-agent", agent)
}

/// Describes the state of a sub-agent in a few words, with its turns and its cost.
#[must_use]
pub fn sub_agent_state(agent: &AgentRow) -> String {
    let state = if agent.state == AgentState::Running { "works" } else { "has ended" };
    facts_after(&format!("{state} · {}", counted(u64::from(agent.turns), "turn")), agent)
}

fn facts_after(first: &str, agent: &AgentRow) -> String {
    let mut facts = vec![first.to_owned()];
    if agent.goes_on() {
        facts.push("in the background".to_owned());
    }
    match agent.state {
        AgentState::Running => {}
        AgentState::Done => facts.push("done".to_owned()),
        AgentState::Failed => facts.push("failed".to_owned()),
        AgentState::Stopped => facts.push("stopped".to_owned()),
    }
    if agent.calls > 0 && agent.state != AgentState::Running {
        facts.push(counted(u64::from(agent.calls), "call"));
    }
    if agent.elapsed_ms >= 1000 {
        facts.push(format!("{} s", agent.elapsed_ms / 1000));
    }
    if agent.tokens > 0 {
        facts.push(format!("{} tokens", thousands(agent.tokens)));
    }
    facts.extend(agent.gauge.map(|gauge| format!("context {} %", gauge.percent)));
    facts.extend(agent.cost.filter(|cost| *cost > 0.0).map(dollars));
    facts.join(" · ")
}

/// Number of the newest blocks in which a sub-agent's running call is searched.
const SEARCHED_BLOCKS: usize = 256;

/// Minimum width for a sub-agent's running call, in columns.
const MIN_CALL_COLUMNS: usize = 12;

/// Running call of a sub-agent, in one line.
fn running_call<'a>(view: &'a View, agent: &AgentRow) -> Option<Cow<'a, str>> {
    view.blocks.iter().rev().take(SEARCHED_BLOCKS).find_map(|block| match &block.content {
        Content::Call(call) if call.state == CallState::Running => {
            block.agent.as_ref().is_some_and(|own| own.name == agent.name).then(|| call.headline())
        }
        _ => None,
    })
}

/// Rows of the running sub-agents: task, cost, and the call that runs.
pub(crate) fn agent_rows(view: &View, width: usize) -> Vec<Row> {
    const HINT: &str = "Ctrl-O opens";
    let running = || view.agents.iter().filter(|agent| agent.state == AgentState::Running);
    let row = |(at, agent): (usize, &AgentRow)| {
        let depth = "  ".repeat(agent.depth.clamp(1, 8) as usize - 1);
        let facts = agent_facts(agent);
        // The facts are always visible, however long the task is.
        let room = width.saturating_sub(depth.len() + facts.chars().count() + 7).max(12);
        let title = clip(agent.title(), room);
        let row = Row::of(Style::BLUE, &format!("  {depth}◐ ")).with(Style::PLAIN, &title);
        let mut row = row.with(Style::DIM, &format!(" · {facts}"));
        let hint = if at == 0 { HINT.len() + 2 } else { 0 };
        let room = width.saturating_sub(row.columns() + hint + 3);
        if let Some(call) = running_call(view, agent).filter(|_| room >= MIN_CALL_COLUMNS) {
            row = row.with(Style::DIM, &format!(" · {}", clip(&call, room)));
        }
        match width.checked_sub(row.columns() + HINT.len()).filter(|gap| at == 0 && *gap >= 2) {
            Some(gap) => row.with(Style::DIM, &" ".repeat(gap)).with(Style::DIM, HINT),
            None => row,
        }
    };
    let mut rows: Vec<Row> = running().enumerate().take(MAX_AGENT_ROWS).map(row).collect();
    let hidden = running().count().saturating_sub(MAX_AGENT_ROWS) as u64;
    if hidden > 0 {
        rows.push(Row::of(Style::DIM, &format!("  +{}", counted(hidden, "more sub-agent"))));
    }
    rows
}

/// Minimum width for a held-back text beside its keys, in columns.
const MIN_HELD_COLUMNS: usize = 16;

/// Rows of the texts that no run takes, with the keys that send, edit and drop them.
fn held_rows(queue: &[Queued], width: usize) -> Vec<Row> {
    const MARK: &str = "  held: ";
    let keys = match queue {
        [] => return Vec::new(),
        [_] => "Enter sends it · Alt-↑ edits it · Ctrl-K drops it",
        [_, _, ..] => "Enter sends them · Alt-↑ edits the last · Ctrl-K drops it",
    };
    let keys = Row::of(Style::DIM, keys);
    let room = width.saturating_sub(MARK.len() + 2 + keys.columns());
    let row = |text: &str| Row::of(Style::YELLOW, MARK).with(Style::PLAIN, text);
    let mut rows: Vec<Row> =
        queue.iter().take(MAX_QUEUE_ROWS).map(|queued| row(queued.text.as_str())).collect();
    match (queue, rows.first_mut()) {
        ([first, ..], Some(row_of_first)) if room >= MIN_HELD_COLUMNS => {
            *row_of_first = with_facts(row(&clip(first.text.as_str(), room)), &keys, width);
        }
        _ => {
            let mut row = Row::of(Style::PLAIN, "  ");
            row.append(&keys);
            rows.insert(0, row);
        }
    }
    rows
}

/// Rows of the queue: steering messages for the next step, texts for after the run, and between runs the texts
/// that the run did not use.
pub(crate) fn queue_rows(queue: &[Queued], is_running: bool, width: usize) -> Vec<Row> {
    let edit = Row::of(Style::DIM, "Alt-↑ edits it");
    let mut rows: Vec<Row> = if is_running {
        queue
            .iter()
            .enumerate()
            .take(MAX_QUEUE_ROWS)
            .map(|(at, queued)| {
                let mark = if queued.steers { "  ↳ at the next step: " } else { "  ↳ then: " };
                let row = Row::of(Style::PLAIN, mark).with(Style::DIM, queued.text.as_str());
                // The key takes back the last text.
                let is_last = at + 1 == queue.len();
                if is_last && row.columns() + 2 + edit.columns() <= width {
                    with_facts(row, &edit, width)
                } else {
                    row
                }
            })
            .collect()
    } else {
        held_rows(queue, width)
    };
    if queue.len() > MAX_QUEUE_ROWS {
        let hidden = queue.len() - MAX_QUEUE_ROWS;
        rows.push(Row::of(Style::DIM, &format!("  +{hidden} more · Alt-↑ edits the last one")));
    }
    rows
}

/// Duration of a command in milliseconds after which a hint on moving it to the background is shown.
const LONG_COMMAND_MS: u64 = 3_000;

/// Whether a command of the conversation's own agent has been running for some time.
pub(crate) fn runs_long_command(view: &View) -> bool {
    let is_command = |block: &Arc<Block>| match &block.content {
        Content::Call(call) => {
            call.state == CallState::Running && call.kind == CallKind::Execute && block.agent.is_none()
        }
        _ => false,
    };
    let runs = matches!(view.status.activity, Activity::Running { .. });
    runs && view.status.activity_ms >= LONG_COMMAND_MS && view.blocks.iter().rev().take(64).any(is_command)
}
