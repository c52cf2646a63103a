//! Picker entries from the view itself.

use std::sync::Arc;

use zk_view::{AgentRow, Block, Content, JobRow, JobState, SubAgent, View};

use super::Offered;
use crate::view::sub_agent_state;

/// The sub-agents of this conversation, by their tasks.
pub(super) fn agent_entries(view: &View) -> Offered {
    let texts = |of: fn(&AgentRow) -> String| view.agents.iter().map(of).collect::<Vec<String>>();
    let mut names = texts(|agent| agent.name.as_str().to_owned());
    let mut labels = texts(|agent| agent.title().to_owned());
    let mut notes = texts(sub_agent_state);
    // Of sub-agents of earlier runs the view has only blocks.
    for agent in view.blocks.iter().filter_map(|block| block.agent.as_ref()) {
        if !names.iter().any(|name| name == agent.name.as_str()) {
            names.push(agent.name.as_str().to_owned());
            labels.push(first_line_of_task(view, agent).unwrap_or(agent.name.as_str()).to_owned());
            notes.push("of an earlier run".to_owned());
        }
    }
    Offered { names: names.into(), labels: labels.into(), notes: notes.into(), ..Offered::default() }
}

/// First line of a sub-agent's task.
fn first_line_of_task<'a>(view: &'a View, agent: &SubAgent) -> Option<&'a str> {
    let is_its = |block: &&Arc<Block>| block.agent.as_deref().is_some_and(|of| of == agent);
    view.blocks.iter().filter(is_its).find_map(|block| match &block.content {
        Content::User { text, .. } => text.as_str().lines().next(),
        _ => None,
    })
}

/// Background commands, newest first.
pub(super) fn job_entries(jobs: &[JobRow]) -> Offered {
    let note = |job: &JobRow| {
        let state = match &job.state {
            JobState::Running => "runs".to_owned(),
            JobState::Ending => "is asked to end".to_owned(),
            JobState::Ended { how, failed: false } => format!("ended: {how}"),
            JobState::Ended { how, failed: true } => format!("failed: {how}"),
        };
        format!("{state} · {}", job.command)
    };
    let names = jobs.iter().rev().map(|job| job.id.as_str().to_owned()).collect();
    Offered { names, notes: jobs.iter().rev().map(note).collect(), ..Offered::default() }
}
