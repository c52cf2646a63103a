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

/// A call that had begun is over. A session store makes its result durable here, before the result is used: a
/// failing handler stops the run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolEnd {
    /// Run that made the call.
    pub run_id: RunId,
    /// Call that ended.
    pub call: Arc<CallRef>,
    /// Summary of the call in one line, as in `tool:begin`.
    pub summary: String,
    /// Whether the call only read, as in `tool:begin`.
    pub read_only: bool,
    /// The result as the model gets it.
    pub result: ToolResult,
    /// Display form of the result, for a person.
    pub display: Option<Display>,
    /// Exit code of the command, if the call ran one that exited by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Structured data of the tool, for plugins.
    pub details: Option<Value>,
    /// Duration of the tool's execution in milliseconds.
    pub elapsed_ms: u64,
}
notify!(ToolEnd, "tool:end", ON_ERROR = OnError::Throw, CANCELLABLE = false);

/// A tool failed. A handler may answer with a result to give instead; the call then counts as successful.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolErrored {
    /// Call that failed.
    pub call: Arc<CallRef>,
    /// Error of the tool.
    pub error: ToolError,
    /// Result to give instead of the error, as set so far.
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

/// A result that is about to be given to the model. Handlers patch it; each sees the earlier patches.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolTransform {
    /// Call that the result belongs to.
    pub call: Arc<CallRef>,
    /// The content so far.
    pub content: ToolContent,
    /// Whether the result is an error.
    pub is_error: bool,
    /// Structured data of the tool, for plugins.
    pub details: Option<Value>,
    /// Size of the unpatched content in bytes as sent, with images and documents in base64.
    pub output_bytes: usize,
}

impl Event for ToolTransform {
    const NAME: &'static str = "tool:transform";
    /// The handlers run even if the run was stopped, since output must always be shortened and redacted.
    const CANCELLABLE: bool = false;
    /// An agent's masking applies to its sub-agents too.
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

/// Answer to [`ToolTransform`]: fields that are set replace the result's values.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResultPatch {
    /// The new content.
    pub content: Option<ToolContent>,
    /// Whether the result is an error.
    pub is_error: Option<bool>,
    /// The new structured data of the tool.
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
    /// Call that the result belongs to.
    pub call: Arc<CallRef>,
    /// Content for the model.
    pub content: ToolContent,
    /// Whether the result is an error.
    pub is_error: bool,
    /// Display form of the result, for a person.
    pub display: Option<Display>,
    /// Exit code of the command, if the call ran one that exited by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Structured data of the tool, for plugins.
    pub details: Option<Value>,
    /// Size of the patched content in bytes as sent, with images and documents in base64.
    pub output_bytes: usize,
    /// Duration of the tool's execution in milliseconds.
    pub elapsed_ms: u64,
    /// Calls of this run before this batch, counted by the tools' canonical names.
    pub run_tool_counts: Arc<BTreeMap<String, u32>>,
}
notify!(ToolAfter, "tool:after");

/// All calls of a turn have results. The assistant message and its results are stored here as a pair, before
/// the next request is sent. A failing handler stops the run, so that no unstored message is built upon.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolResultsAfter {
    /// Run that made the calls.
    pub run_id: RunId,
    /// Turn that the messages belong to.
    pub turn_id: TurnId,
    /// The assistant message with the calls.
    pub assistant: Arc<Message>,
    /// The user message with the results.
    pub results: Arc<Message>,
    /// The usage of the turn.
    pub usage: TurnUsage,
}
notify!(ToolResultsAfter, "tool-results:after", ON_ERROR = OnError::Throw, CANCELLABLE = false);
