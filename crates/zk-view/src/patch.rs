use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::service::QuestionId;

use crate::{AgentRow, Block, BlockId, Card, CheckRow, JobRow, Lines, Queued, Status, Text, View};

/// Version of the patches' format: the minor part changes with additions, the major part with incompatible
/// changes.
pub const PATCH_VERSION: &str = "2.4";

/// One change of a [`View`]. Patches are applied in order, by [`View::apply`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "patch", rename_all = "snake_case")]
pub enum Patch {
    /// Complete view, as the first patch of a reader and after it fell behind. After a session switch it has
    /// another [`View::switches`].
    Reset {
        /// The view.
        view: Box<View>,
    },
    /// Appends a block, open or closed.
    Open {
        /// The block.
        block: Arc<Block>,
    },
    /// More text of an open block; for a call, more of its output.
    Grow {
        /// The block.
        id: BlockId,
        /// The text.
        delta: Text,
    },
    /// Replaces an open block.
    Change {
        /// The block.
        block: Arc<Block>,
    },
    /// An open block was closed and does not change any more.
    Close {
        /// The block.
        block: Arc<Block>,
    },
    /// An open block without content was removed.
    Remove {
        /// The block.
        id: BlockId,
    },
    /// All lines of a body, on request. Not part of the view.
    Body {
        /// The block.
        id: BlockId,
        /// The lines.
        lines: Lines,
    },
    /// A question is open.
    Ask {
        /// The question.
        card: Box<Card>,
    },
    /// A question was answered, withdrawn or dropped.
    Answered {
        /// The question.
        id: QuestionId,
    },
    /// The texts that wait for their turn.
    Queue {
        /// All texts, in their order.
        queued: Vec<Queued>,
    },
    /// New status line.
    Status {
        /// The status.
        status: Status,
    },
    /// The sub-agents of the run.
    Agents {
        /// All sub-agents of the run.
        agents: Vec<AgentRow>,
    },
    /// Background commands, running and ended.
    Jobs {
        /// All background commands, also ended ones.
        jobs: Vec<JobRow>,
    },
    /// New to-do list.
    Checklist {
        /// All items of the list.
        items: Vec<CheckRow>,
    },
}

impl Patch {
    /// Estimated bytes that the patch takes in the queue of a reader.
    pub(crate) fn weight(&self) -> usize {
        const ITEM: usize = 128;
        match self {
            Self::Grow { delta, .. } => ITEM + delta.weight(),
            // A closed block is shared with the view. Its size is bounded, except for its text.
            Self::Open { .. } | Self::Change { .. } | Self::Close { .. } => 2 * ITEM,
            Self::Body { lines, .. } => ITEM + lines.iter().map(|line| line.weight() + 48).sum::<usize>(),
            Self::Queue { queued } => ITEM + queued.iter().map(|text| text.text.weight()).sum::<usize>(),
            Self::Agents { agents } => ITEM * (1 + agents.len()),
            Self::Jobs { jobs } => ITEM * (1 + jobs.len()),
            Self::Checklist { items } => ITEM * (1 + items.len()),
            Self::Ask { .. } => 8 * ITEM,
            Self::Reset { view } => ITEM + size_of::<Arc<Block>>() * view.blocks.len(),
            Self::Remove { .. } | Self::Answered { .. } | Self::Status { .. } => ITEM,
        }
    }
}
