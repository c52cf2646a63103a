//! Entries that the view itself has.

use zk_view::{AgentRow, JobRow, JobState, View};

use super::Offered;
use crate::view::agent_facts;

/// The sub-agents of this conversation.
pub(super) fn agents(view: &View) -> Offered {
    let note = |agent: &AgentRow| {
        let facts = agent_facts(agent);
        let parts = [facts.as_str(), agent.task.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
    };
    let mut names: Vec<String> = view.agents.iter().map(|agent| agent.name.as_str().to_owned()).collect();
    let mut notes: Vec<String> = view.agents.iter().map(note).collect();
    // Sub-agents of earlier runs have blocks only.
    for agent in view.blocks.iter().filter_map(|block| block.agent.as_ref()) {
        if !names.iter().any(|name| name == agent.name.as_str()) {
            names.push(agent.name.as_str().to_owned());
            notes.push("of an earlier run".to_owned());
        }
    }
    Offered { names: names.into(), notes: notes.into(), ..Offered::default() }
}

/// The commands in the background, the newest first.
pub(super) fn jobs(jobs: &[JobRow]) -> Offered {
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
