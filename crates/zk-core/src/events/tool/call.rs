use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::Coercion;
use crate::events::notify;
use crate::kernel::{Absorb, Event, Fold, Notify, OnError, Source};
use crate::model::{CallKind, CallLocation, CallRef, Effects, RunId, ToolContent, TurnId};

/// Calls of one answer grouped by kind, before the first of them is prepared. Announced only for several
/// calls. The kinds come from unchecked arguments and are for display only.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBatch {
    /// Turn in which the model made the calls.
    pub turn_id: TurnId,
    /// Groups of calls, in the order of the first call of each.
    pub groups: Vec<CallGroup>,
}
notify!(ToolBatch, "tool:batch");

/// Calls of one kind within an answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CallGroup {
    /// Kind of work of the calls.
    pub kind: CallKind,
    /// The calls, in the order of the answer.
    pub calls: Vec<Arc<CallRef>>,
}

/// All calls of one answer have results, none of which is in the history yet.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBatchEnd {
    /// Turn in which the model made the calls.
    pub turn_id: TurnId,
    /// The calls with their outcomes, in the order of the answer.
    pub calls: Vec<EndedCall>,
    /// Outcome counts of the run, this batch included.
    pub counts: OutcomeCounts,
}
notify!(ToolBatchEnd, "tool:batch_end", CANCELLABLE = false);

/// A call of a batch, with its outcome.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EndedCall {
    /// Identity of the call.
    pub call: Arc<CallRef>,
    /// Whether the result is an error; always so for a call that was refused or skipped.
    pub is_error: bool,
    /// First line of the error message, shortened if long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Counts of a run's call outcomes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OutcomeCounts {
    /// Calls with a result, including refused and skipped calls.
    pub calls: u64,
    /// Calls whose result is an error.
    pub errors: u64,
    /// Errors followed, in a later batch, by a success of the same tool or of a call on the same file.
    pub resolved: u64,
}

/// A call was approved and is about to run. A session store makes the call durable here, before it has any
/// effect: a failing handler refuses the call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBegin {
    /// Run that made the call.
    pub run_id: RunId,
    /// Call that is about to run.
    pub call: Arc<CallRef>,
    /// Final arguments of the call.
    pub args: Value,
    /// Effects of the call, as declared by its tool.
    pub effects: Effects,
    /// Summary of what the call will do, in one line.
    pub summary: String,
    /// Title of the tool for people, if it differs from the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Kind of work of the call.
    #[serde(default, skip_serializing_if = "CallKind::is_other")]
    pub kind: CallKind,
    /// Files that the call is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<CallLocation>,
    /// Whether the call only reads, so that no record of it is needed for recovery.
    pub read_only: bool,
}

impl Event for ToolBegin {
    const NAME: &'static str = "tool:begin";
    const ON_ERROR: OnError = OnError::Throw;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
    type Reply = ();
    type Mode = Notify;
}

/// A tool is about to run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBefore {
    /// Call that is about to run.
    pub call: Arc<CallRef>,
    /// Final arguments of the call.
    pub args: Value,
    /// Summary of what the call will do, in one line.
    pub summary: String,
    /// Arguments that were converted to fit the schema; `None` if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coercions: Option<Vec<Coercion>>,
    /// Calls of this run before this batch, counted by the tools' canonical names.
    pub run_tool_counts: Arc<BTreeMap<String, u32>>,
}
notify!(ToolBefore, "tool:before");

/// A running tool printed output.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolProgress {
    /// Call that printed the text.
    pub call: Arc<CallRef>,
    /// New output of the tool.
    pub text: String,
}
notify!(ToolProgress, "tool:progress");

/// A remark on a call for the person, such as which output was left out. Front-ends show it with the call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolRemark {
    /// Call that the remark is about.
    pub call: Arc<CallRef>,
    /// One line of text.
    pub text: String,
}
notify!(ToolRemark, "tool:remark", CANCELLABLE = false);

/// A call is parked: it waits for a decision that no person is present to make. It is not counted, and the
/// run ends after its batch.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolParked {
    /// Call that was parked.
    pub call: Arc<CallRef>,
    /// Arguments of the call.
    pub args: Value,
    /// Reason for the wait.
    pub reason: String,
    /// Source that parked the call, if known.
    pub by: Option<String>,
}
notify!(ToolParked, "tool:parked");

/// A call was refused. It is not counted, and no other tool event follows.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBlocked {
    /// Call that was refused.
    pub call: Arc<CallRef>,
    /// Arguments of the call.
    pub args: Value,
    /// Reason for the refusal.
    pub reason: String,
    /// Source that refused the call; `None` if a gate failed.
    pub by: Option<String>,
}
notify!(ToolBlocked, "tool:blocked");

/// A call was skipped because its batch ended early. Its result says so.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolSkipped {
    /// Call that was skipped.
    pub call: Arc<CallRef>,
    /// Reason for skipping the call.
    pub reason: String,
}
notify!(ToolSkipped, "tool:skipped", CANCELLABLE = false);

/// The model called a tool that does not exist.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolUnknown {
    /// Call of the unknown tool.
    pub call: Arc<CallRef>,
    /// Arguments of the call.
    pub args: Value,
    /// Result to give instead of the error text, as set so far.
    pub result: Option<ToolContent>,
    /// Whether the call counts as no error, so that `tool:error` is not announced.
    pub suppress_error: bool,
}

impl Event for ToolUnknown {
    const NAME: &'static str = "tool:unknown";
    type Reply = UnknownReply;
    type Mode = Fold;
}

impl Absorb for ToolUnknown {
    fn absorb(&mut self, reply: UnknownReply, _: &Source) -> ControlFlow<()> {
        if reply.result.is_some() {
            self.result = reply.result;
        }
        self.suppress_error |= reply.suppress_error;
        ControlFlow::Continue(())
    }
}

/// Answer to [`ToolUnknown`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnknownReply {
    /// Result to give instead of the error text.
    pub result: Option<ToolContent>,
    /// Whether the call counts as no error.
    pub suppress_error: bool,
}
