use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::notify;
use crate::kernel::{Absorb, BoxError, Event, Fold, OnError, Reach, Source, WireReply};
use crate::model::{CallRef, Display, Message, RunId, ToolContent, ToolError, ToolResult, TurnId, TurnUsage};

/// A call that had begun is over. Whoever stores sessions makes its result durable here, before anybody acts
/// on it: a handler that fails stops the run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolEnd {
    /// Run that made the call.
    pub run_id: RunId,
    /// The call.
    pub call: Arc<CallRef>,
    /// Summary of what the call did, in one line, as its `tool:begin` said.
    pub summary: String,
    /// Whether it only read, as its `tool:begin` said.
    pub read_only: bool,
    /// The result as the model gets it.
    pub result: ToolResult,
    /// Form of the result for a person.
    pub display: Option<Display>,
    /// The exit code, if it was a command that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The tool's own data.
    pub details: Option<Value>,
    /// Milliseconds the tool ran.
    pub elapsed_ms: u64,
}
notify!(ToolEnd, "tool:end", ON_ERROR = OnError::Throw, CANCELLABLE = false);

/// A tool failed. A handler may answer with the result to give instead; the call then counts as done.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolErrored {
    /// The call.
    pub call: Arc<CallRef>,
    /// Error of the tool.
    pub error: ToolError,
    /// The result so far, instead of the error.
    pub result: Option<ToolContent>,
}

impl Event for ToolErrored {
    const NAME: &'static str = "tool:error";
    type Reply = ToolContent;
    type Mode = Fold;
}

impl Absorb for ToolErrored {
    fn absorb(&mut self, reply: ToolContent, _: &Source) -> ControlFlow<()> {
        self.result = Some(reply);
        ControlFlow::Continue(())
    }
}

/// A result about to be given to the model. Handlers patch it; each sees the patches before it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolTransform {
    /// The call.
    pub call: Arc<CallRef>,
    /// The content so far.
    pub content: ToolContent,
    /// Whether it is an error.
    pub is_error: bool,
    /// The tool's own data.
    pub details: Option<Value>,
    /// The size before any patch, as it weighs on the wire.
    pub output_bytes: usize,
}

impl Event for ToolTransform {
    const NAME: &'static str = "tool:transform";
    /// Output that must be cut or masked must be so also when the run is stopped.
    const CANCELLABLE: bool = false;
    /// Masking for an agent holds for its sub-agents too.
    const REACH: Reach = Reach::Descendants;
    type Reply = ResultPatch;
    type Mode = Fold;
}

impl Absorb for ToolTransform {
    fn absorb(&mut self, reply: ResultPatch, _: &Source) -> ControlFlow<()> {
        if let Some(content) = reply.content {
            self.content = content;
        }
        if let Some(is_error) = reply.is_error {
            self.is_error = is_error;
        }
        if reply.details.is_some() {
            self.details = reply.details;
        }
        ControlFlow::Continue(())
    }
}

/// An answer to [`ToolTransform`]: what is set is changed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResultPatch {
    /// The content.
    pub content: Option<ToolContent>,
    /// Whether it is an error.
    pub is_error: Option<bool>,
    /// The tool's own data.
    pub details: Option<Value>,
}

impl WireReply for ResultPatch {
    fn from_json(value: Value) -> Result<Self, BoxError> {
        Ok(serde_json::from_value(value)?)
    }
}

/// A call has its final result.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolAfter {
    /// The call.
    pub call: Arc<CallRef>,
    /// The content the model gets.
    pub content: ToolContent,
    /// Whether it is an error.
    pub is_error: bool,
    /// Form of the result for a person.
    pub display: Option<Display>,
    /// The exit code, if it was a command that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The tool's own data.
    pub details: Option<Value>,
    /// The size after all patches, as it weighs on the wire.
    pub output_bytes: usize,
    /// Milliseconds the tool ran.
    pub elapsed_ms: u64,
    /// Calls of this run before this batch, by canonical name.
    pub run_tool_counts: Arc<BTreeMap<String, u32>>,
}
notify!(ToolAfter, "tool:after");

/// Every call of a turn has its result. The assistant message and its results are stored here, as one unit,
/// before the next request is sent. A handler that fails stops the run: nothing goes on unstored.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolResultsAfter {
    /// Run that made the calls.
    pub run_id: RunId,
    /// The turn.
    pub turn_id: TurnId,
    /// The assistant message with the calls.
    pub assistant: Arc<Message>,
    /// The user message with the results.
    pub results: Arc<Message>,
    /// The usage of the turn.
    pub usage: TurnUsage,
}
notify!(ToolResultsAfter, "tool-results:after", ON_ERROR = OnError::Throw, CANCELLABLE = false);
