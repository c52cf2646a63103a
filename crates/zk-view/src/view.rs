use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{AgentRow, Block, BlockId, Card, CheckRow, JobRow, Patch, Queued, Status};

/// Snapshot of a conversation as shown. Plain data: equal patches make equal views. Blocks are searched for
/// from the end; [`IndexedView`](crate::IndexedView) finds them in constant time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct View {
    /// Number of session switches. Block ids are unique between two of them.
    #[serde(default)]
    pub switches: u64,
    /// All blocks, in order. Closed ones are immutable.
    pub blocks: Vec<Arc<Block>>,
    /// Open questions, oldest first.
    pub cards: Vec<Card>,
    /// Texts that wait for their turn.
    pub queue: Vec<Queued>,
    /// Status line.
    pub status: Status,
    /// The sub-agents of the run.
    pub agents: Vec<AgentRow>,
    /// Background commands, running and ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobRow>,
    /// To-do list, as last written by the main agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checklist: Vec<CheckRow>,
}

impl View {
    /// Applies a patch.
    pub fn apply(&mut self, patch: &Patch) {
        match patch {
            Patch::Reset { view } => self.clone_from(view),
            Patch::Open { block } => self.blocks.push(block.clone()),
            Patch::Change { block } | Patch::Close { block } => self.put(block),
            Patch::Grow { id, delta } => {
                if let Some(block) = self.position(id).and_then(|at| self.blocks.get_mut(at)) {
                    Arc::make_mut(block).grow(delta);
                }
            }
            Patch::Remove { id } => {
                if let Some(at) = self.position(id) {
                    self.blocks.remove(at);
                }
            }
            Patch::Body { .. } => {}
            Patch::Ask { card } => self.cards.push((**card).clone()),
            Patch::Answered { id } => self.cards.retain(|card| card.id != *id),
            Patch::Queue { queued } => self.queue.clone_from(queued),
            Patch::Status { status } => self.status = status.clone(),
            Patch::Agents { agents } => self.agents.clone_from(agents),
            Patch::Jobs { jobs } => self.jobs.clone_from(jobs),
            Patch::Checklist { items } => self.checklist.clone_from(items),
        }
    }

    /// The block with this id.
    #[must_use]
    pub fn block(&self, id: &BlockId) -> Option<&Arc<Block>> {
        self.position(id).and_then(|at| self.blocks.get(at))
    }

    /// Position of a block, searched for from the end, where most changes are.
    fn position(&self, id: &BlockId) -> Option<usize> {
        self.blocks.iter().rposition(|block| block.id == *id)
    }

    fn put(&mut self, block: &Arc<Block>) {
        match self.position(&block.id).and_then(|at| self.blocks.get_mut(at)) {
            Some(known) => *known = block.clone(),
            None => self.blocks.push(block.clone()),
        }
    }
}
