use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::service::QuestionId;

use crate::{AgentRow, Block, BlockId, Card, CheckRow, JobRow, Lines, Queued, Status, Text, View};

/// The version of the patches' shape: the second part grows with what is added, the first with what a reader of the old
/// shape would miss.
pub const PATCH_VERSION: &str = "2.0";

/// One change of a [`View`]. Patches are applied in order, by [`View::apply`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "patch", rename_all = "snake_case")]
pub enum Patch {
    /// The whole view: what every reader gets first, and again after it fell behind. When another session takes the
    /// place of the one shown, it is the new session's, with another [`View::switches`].
    Reset {
        /// The view.
        view: Box<View>,
    },
    /// A new block at the end; it may be closed already.
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
    /// An open block in another state.
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
    /// All lines of a body, as they were asked for. Not part of the view.
    Body {
        /// The block.
        id: BlockId,
        /// The lines.
        lines: Lines,
    },
    /// A question waits for the person.
    Ask {
        /// The question.
        card: Box<Card>,
    },
    /// A question was answered, withdrawn or given up.
    Answered {
        /// The question.
        id: QuestionId,
    },
    /// The texts that wait for their turn.
    Queue {
        /// All texts, in their order.
        queued: Vec<Queued>,
    },
    /// Status of what is going on now.
    Status {
        /// The status.
        status: Status,
    },
    /// The sub-agents of the run.
    Agents {
        /// All sub-agents of the run.
        agents: Vec<AgentRow>,
    },
    /// The commands that run in the background, and those that ended.
    Jobs {
        /// All commands in the background, also those that ended.
        jobs: Vec<JobRow>,
    },
    /// The list of what is to be done.
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
            // A closed block is shared with the view, and bounded but for its text.
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
