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

/// The calls of one answer by their kind, before the first of them is prepared; only where there are several. Kinds come
/// from arguments that nothing has checked, and are for display only.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBatch {
    /// The turn.
    pub turn_id: TurnId,
    /// The calls by their kind, in the order of the first call of each.
    pub groups: Vec<CallGroup>,
}
notify!(ToolBatch, "tool:batch");

/// Calls of one kind.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CallGroup {
    /// Kind of work of the calls.
    pub kind: CallKind,
    /// The calls, in the order of the answer.
    pub calls: Vec<Arc<CallRef>>,
}

/// All calls of one answer have their results, and none of them is in the history yet.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBatchEnd {
    /// The turn.
    pub turn_id: TurnId,
    /// The calls with how they ended, in the order of the answer.
    pub calls: Vec<EndedCall>,
    /// The counts of the run, this batch included.
    pub counts: OutcomeCounts,
}
notify!(ToolBatchEnd, "tool:batch_end", CANCELLABLE = false);

/// A call of a batch, with its outcome.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EndedCall {
    /// The call.
    pub call: Arc<CallRef>,
    /// Whether its result is an error; that of a call that was refused or not run is one, too.
    pub is_error: bool,
    /// The first line of the error, cut where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Counts of the outcomes of a run's calls so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OutcomeCounts {
    /// Calls with a result, also those that were refused or not run.
    pub calls: u64,
    /// Calls whose result is an error.
    pub errors: u64,
    /// Errors that were followed, in a later batch, by a success of the same tool or of a call at the same file.
    pub resolved: u64,
}

/// A call was let through and is about to run. Whoever stores sessions makes that durable here, before the
/// call has any effect: a handler that fails refuses the call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBegin {
    /// Run that made the call.
    pub run_id: RunId,
    /// The call.
    pub call: Arc<CallRef>,
    /// The arguments that run.
    pub args: Value,
    /// Effects of the call, as its tool declares them.
    pub effects: Effects,
    /// Summary of what the call will do, in one line.
    pub summary: String,
    /// Title of the tool for people, if it is not its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Kind of work of the call.
    #[serde(default, skip_serializing_if = "CallKind::is_other")]
    pub kind: CallKind,
    /// The places it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<CallLocation>,
    /// Whether it only reads: nothing needs to be remembered of a call that has no effect.
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
    /// The call.
    pub call: Arc<CallRef>,
    /// The arguments the tool gets.
    pub args: Value,
    /// Summary of what the call will do, in one line.
    pub summary: String,
    /// Conversions of arguments; absent when there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coercions: Option<Vec<Coercion>>,
    /// Calls of this run before this batch, by canonical name.
    pub run_tool_counts: Arc<BTreeMap<String, u32>>,
}
notify!(ToolBefore, "tool:before");

/// A running tool printed something.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolProgress {
    /// The call.
    pub call: Arc<CallRef>,
    /// Text that the tool printed.
    pub text: String,
}
notify!(ToolProgress, "tool:progress");

/// A remark on a call for the person, such as what was left out of its output. Front-ends show it with the call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolRemark {
    /// The call.
    pub call: Arc<CallRef>,
    /// The remark, in one line.
    pub text: String,
}
notify!(ToolRemark, "tool:remark", CANCELLABLE = false);

/// A call waits for somebody who is not here. It is not counted, and the run ends after its batch.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolParked {
    /// The call.
    pub call: Arc<CallRef>,
    /// Arguments of the call.
    pub args: Value,
    /// Reason for the wait.
    pub reason: String,
    /// Source that parked the call.
    pub by: Option<String>,
}
notify!(ToolParked, "tool:parked");

/// A call was refused. It is not counted, and no other tool event follows.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBlocked {
    /// The call.
    pub call: Arc<CallRef>,
    /// Arguments of the call.
    pub args: Value,
    /// Reason for the refusal.
    pub reason: String,
    /// Source that refused; nobody in particular when a guard failed.
    pub by: Option<String>,
}
notify!(ToolBlocked, "tool:blocked");

/// A call was not run because the batch ended early; it got a result that says so.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolSkipped {
    /// The call.
    pub call: Arc<CallRef>,
    /// Reason for skipping the call.
    pub reason: String,
}
notify!(ToolSkipped, "tool:skipped", CANCELLABLE = false);

/// The model called a tool that does not exist.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolUnknown {
    /// The call.
    pub call: Arc<CallRef>,
    /// Arguments of the call.
    pub args: Value,
    /// The result so far, instead of the error text.
    pub result: Option<ToolContent>,
    /// Whether this is no error: `tool:error` is not announced.
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

/// An answer to [`ToolUnknown`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnknownReply {
    /// The result to give.
    pub result: Option<ToolContent>,
    /// Whether this is no error.
    pub suppress_error: bool,
}
