use std::sync::Arc;

use zk_core::model::{CallId, RunId};
use zk_core::service::{CustomEntry, Entry};

use super::lane::AgentBlocks;
use super::{Engine, rebuild};
use crate::record::{AgentRecord, RunRecord};
use crate::{Block, Content, Lines, RunEnd, SubAgent, Text};

/// Sub-agent of an imported conversation, for [`adopted_run`].
#[derive(Clone, Debug)]
pub struct AdoptedAgent {
    /// Name of the sub-agent, unique in its run.
    pub name: String,
    /// Call that delegated to it; `None` if unknown.
    pub call_id: Option<CallId>,
    /// Messages of the sub-agent as entries.
    pub entries: Vec<Entry>,
}

/// Entry that shows sub-agents and the end of an imported run, to be stored before the run's end. `run` holds the entries
/// of the run so far.
///
/// ```
/// use zk_view::adopted_run;
///
/// let entry = adopted_run(&"r_1".into(), &[], &[], None);
/// assert!(entry.is_some_and(|entry| entry.source == "zk-view"));
/// ```
#[must_use]
pub fn adopted_run(
    run_id: &RunId,
    run: &[Entry],
    agents: &[AdoptedAgent],
    end: Option<RunEnd>,
) -> Option<CustomEntry> {
    let mut shown: Vec<Option<CallId>> = rebuild(run)
        .into_iter()
        .map(|block| match &block.content {
            Content::Call(call) => Some(call.call_id.clone()),
            _ => None,
        })
        .collect();
    let mut records = Vec::new();
    for agent in agents {
        let call = agent.call_id.as_ref();
        let at = call.and_then(|id| shown.iter().rposition(|shown| shown.as_ref() == Some(id)));
        let at = at.map_or(shown.len(), |at| at + 1);
        let blocks = agent_blocks(agent);
        shown.splice(at..at, blocks.iter().map(|_| None));
        // Positions of earlier sub-agents behind the new blocks move.
        let count = blocks.len() as u64;
        let at = at as u64;
        for record in &mut records {
            let AgentRecord { at: place, .. } = record;
            if *place >= at {
                *place += count;
            }
        }
        let blocks = blocks.into_iter().zip(at..);
        records.extend(blocks.map(|((block, lines), at)| AgentRecord { at, block, lines }));
    }
    RunRecord { run_id: Some(run_id.clone()), agents: records, end, ..RunRecord::default() }.to_custom_entry()
}

/// Blocks of a sub-agent, each with all lines of a truncated body.
fn agent_blocks(agent: &AdoptedAgent) -> Vec<(Block, Option<Lines>)> {
    let mut engine = Engine::new();
    engine.core.unlimit_bodies();
    engine.own = AgentBlocks::of_agent(Arc::new(SubAgent { name: Text::line(&agent.name), depth: 1 }));
    engine.restore(&agent.entries);
    let mut bodies = engine.core.take_bodies();
    let blocks = engine.core.view.into_view().blocks.into_iter();
    // Only the main agent has an end of the run.
    let blocks = blocks.filter(|block| !matches!(block.content, Content::End(_)));
    blocks.map(|block| (Block::clone(&block), bodies.remove(&block.id))).collect()
}
