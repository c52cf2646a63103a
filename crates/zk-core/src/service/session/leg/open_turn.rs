use std::sync::Arc;

use serde_json::Value;

use super::{LegAnswer, RunBudget, StoredQuestion, StoredWait};
use crate::model::{CallId, EntryId, Message, RunId, ToolResult, TurnId, TurnUsage};
use crate::service::RunStatus;

/// Run in a session's log that has not ended, for the leg that continues it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnfinishedRun {
    /// Id of the run.
    pub run_id: RunId,
    /// Number of turns that the run has begun, including an open one.
    pub turns: u32,
    /// Outcome of the run, if its end is stored: a worker died right after that, and nothing is left to do.
    pub ended: Option<RunStatus>,
    /// Turn whose answer is stored and whose results are not.
    pub open_turn: Option<OpenTurn>,
    /// Questions on which the run was parked, with their entries.
    pub questions: Vec<(EntryId, StoredQuestion)>,
    /// Stored answers to questions of parked runs.
    pub answers: Vec<LegAnswer>,
    /// Times for which calls of the run were parked.
    pub waits: Vec<StoredWait>,
    /// Budget of the run, and what it has spent of it.
    pub budget: RunBudget,
}

/// Stored answer of a model whose calls have no results in the conversation yet.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenTurn {
    /// Id of the turn.
    pub turn_id: TurnId,
    /// Answer that contains the calls.
    pub message: Arc<Message>,
    /// Usage of the turn.
    pub usage: TurnUsage,
    /// Calls of the answer, in order.
    pub calls: Vec<StoredCall>,
}

/// Call of an [`OpenTurn`], as far as the log knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredCall {
    /// Id of the call.
    pub call_id: CallId,
    /// Canonical name of the tool.
    pub name: String,
    /// Arguments with which the call began; those of the model if it did not.
    pub args: Value,
    /// Progress of the call.
    pub state: StoredCallState,
}

/// Progress of a call in the log.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredCallState {
    /// The call ended with this result.
    Ended(ToolResult),
    /// The call began and has no end: it may or may not have taken effect. The result says so.
    Unknown(ToolResult),
    /// The call did not begin, or only reads.
    NotBegun,
}
