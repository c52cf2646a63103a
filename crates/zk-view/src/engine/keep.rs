use std::sync::Arc;

use zk_core::model::RunId;
use zk_core::service::NewEntry;

use super::Engine;
use crate::record::{AgentRecord, RunRecord};
use crate::{Block, BlockId};

/// Parts of a run in an entry. After the entry is stored, [`Engine::entry_is_stored`] removes them from later
/// entries.
#[derive(Clone, Debug)]
pub struct Kept {
    run_id: Option<RunId>,
    /// Number of turns in the entry, from the oldest unstored one.
    turns: usize,
    /// Blocks of the sub-agents in the entry.
    agents: Vec<BlockId>,
}

impl Engine {
    /// Entry with the record of the last run, for [`rebuild`](crate::rebuild): the reply to
    /// `session:before-end`.
    #[must_use]
    pub fn run_entry(&self) -> Option<(NewEntry, Kept)> {
        if self.own.has_nothing_to_keep() {
            return None;
        }
        let agents: Vec<AgentRecord> = self.unstored_agents().collect();
        let kept = self.kept_parts(self.own.record.turns.len(), &agents);
        let entry = RunRecord { agents, ..self.own.record.clone() }.entry()?;
        Some((entry, kept))
    }

    /// Entry with the records of finished turns of the present run; `None` if all are stored.
    #[must_use]
    pub fn turn_entry(&self) -> Option<(NewEntry, Kept)> {
        let RunRecord { run_id, turns, .. } = &self.own.record;
        let (run_id, turns) = (run_id.clone(), turns.clone());
        let agents = self.settled_agents();
        let kept = self.kept_parts(turns.len(), &agents);
        let record = RunRecord { run_id, turns, agents, ..RunRecord::default() };
        let entry = record.has_unstored_data().then(|| record.entry()).flatten()?;
        Some((entry, kept))
    }

    /// Entry with the records of running sub-agents; `None` if they are stored already.
    #[must_use]
    pub fn agents_entry(&self) -> Option<(NewEntry, Kept)> {
        let agents = self.settled_agents();
        if agents.is_empty() {
            return None;
        }
        let kept = self.kept_parts(0, &agents);
        let record = RunRecord { run_id: self.own.record.run_id.clone(), agents, ..RunRecord::default() };
        Some((record.entry()?, kept))
    }

    /// Marks an entry as stored, so that later ones omit its parts. Ignores an entry of another run.
    pub fn entry_is_stored(&mut self, kept: Kept) {
        let Kept { run_id, turns, agents } = kept;
        if run_id == self.own.record.run_id {
            self.agents_kept.extend(agents);
            let stored = &mut self.own.record.turns;
            stored.drain(..turns.min(stored.len()));
        }
    }

    /// Marks the parts of an entry as being stored: entries of sub-agents that are made meanwhile omit them.
    pub(crate) fn begin_storing(&mut self, kept: Kept) {
        self.being_stored = Some(kept);
    }

    /// Marks the parts that were being stored as not stored, after a failure.
    pub(crate) fn give_up_storing(&mut self) {
        self.being_stored = None;
    }

    /// Marks the parts that were being stored as stored; `false` if there were none.
    pub(crate) fn end_storing(&mut self) -> bool {
        let kept = self.being_stored.take();
        let was_storing = kept.is_some();
        kept.into_iter().for_each(|kept| self.entry_is_stored(kept));
        was_storing
    }

    fn kept_parts(&self, turns: usize, agents: &[AgentRecord]) -> Kept {
        let agents = agents.iter().map(|record| record.block.id.clone()).collect();
        Kept { run_id: self.own.record.run_id.clone(), turns, agents }
    }

    /// Blocks of the run that the session stores, each with its position.
    fn run_blocks(&self) -> impl Iterator<Item = (&Arc<Block>, u64)> {
        let blocks = self.core.view.blocks.get(self.run_from..).unwrap_or_default();
        blocks.iter().filter(|block| block.is_stored()).zip(0..)
    }

    /// Records of the run's sub-agents' blocks that the session does not have yet.
    fn unstored_agents(&self) -> impl Iterator<Item = AgentRecord> {
        let is_new = |block: &Block| !self.agents_kept.contains(&block.id);
        let agents = self.run_blocks().filter(|(block, _)| block.agent.is_some() && block.closed);
        agents.filter(move |(block, _)| is_new(block)).map(|(block, at)| {
            let lines = self.core.body(&block.id).cloned();
            AgentRecord { at, block: Block::clone(block), lines }
        })
    }

    /// Records of sub-agents' blocks whose positions are final.
    fn settled_agents(&self) -> Vec<AgentRecord> {
        // A part of the arriving answer may be removed, which would move later blocks.
        let arriving = self.run_blocks().position(|(block, _)| block.is_arriving());
        let end = arriving.map_or(u64::MAX, |at| u64::try_from(at).unwrap_or(u64::MAX));
        let is_stored =
            |id: &BlockId| self.being_stored.as_ref().is_some_and(|kept| kept.agents.contains(id));
        let settled = self.unstored_agents().take_while(|record| record.at < end);
        settled.filter(|record| !is_stored(&record.block.id)).collect()
    }
}
