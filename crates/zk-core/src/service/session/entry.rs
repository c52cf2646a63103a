use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Audience, CustomEntry};
use crate::model::{
    CallId, Display, EntryId, Message, ModelRef, RunId, ThinkingLevel, ToolResult, TurnId, TurnUsage,
};

/// Version of the entries' JSON form. The minor part grows with each addition, the major part with each
/// incompatible change.
pub const ENTRY_VERSION: &str = "1.5";

/// One record of a session's append-only log. The records form a tree by `parent`. The record written last is the leaf: the
/// present branch consists of the leaf and its ancestors ([`present_branch`](super::present_branch)).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Entry {
    /// Id of the entry.
    pub id: EntryId,
    /// Id of the entry before this one on its branch.
    pub parent: Option<EntryId>,
    /// Time of writing in milliseconds since 1970.
    pub time_ms: u64,
    /// Content of the entry.
    pub kind: EntryKind,
}

// Large fields are boxed to keep an entry small: a session has thousands of entries.
/// Content of an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum EntryKind {
    /// A message of the conversation.
    Message {
        /// Message with its content blocks.
        message: Arc<Message>,
        /// The usage of the turn, with an assistant message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Box<TurnUsage>>,
    },
    /// The model changed.
    Model {
        /// The new model.
        model: ModelRef,
    },
    /// The thinking level changed.
    Thinking {
        /// The new thinking level.
        level: ThinkingLevel,
    },
    /// A run began.
    RunStart {
        /// Id of the run that began.
        run_id: RunId,
    },
    /// A run ended.
    RunEnd {
        /// Id of the run that ended.
        run_id: RunId,
        /// Outcome of the run: `completed`, `aborted` or `error`.
        status: RunStatus,
    },
    /// An answer with tool calls, stored before any of them runs. Provisional: the assistant message and its
    /// results follow as a pair once all calls have ended.
    OpenTurn {
        /// Id of the turn.
        turn_id: TurnId,
        /// The assistant message with the calls.
        message: Arc<Message>,
        /// The usage of the turn.
        usage: Box<TurnUsage>,
    },
    /// The start of a call that is not read-only, stored before it runs.
    CallBegin {
        /// Turn in which the model made the call.
        turn_id: TurnId,
        /// Id of the call.
        call_id: CallId,
        /// Canonical name of the tool.
        name: String,
        /// Final arguments of the call.
        args: Value,
        /// Summary of what the call will do, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
    /// The end of a call that is not read-only, stored before its result is used.
    CallEnd {
        /// Turn in which the model made the call.
        turn_id: TurnId,
        /// Id of the call.
        call_id: CallId,
        /// Summary of what the call did, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Result for the model.
        result: Box<ToolResult>,
        /// Display form of the result, for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<Box<Display>>,
        /// Structured data of the tool, for plugins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// Duration of the call in milliseconds.
        elapsed_ms: u64,
    },
    /// Data of a read-only call besides its result, stored with the messages of its turn.
    CallData {
        /// Turn in which the model made the call.
        turn_id: TurnId,
        /// Id of the call.
        call_id: CallId,
        /// Summary of what the call did, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Display form of the result, for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<Box<Display>>,
        /// Structured data of the tool, for plugins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// Duration of the call in milliseconds.
        elapsed_ms: u64,
    },
    /// Usage without a message: of a turn whose answer broke off before any text, of a side call, or of a
    /// sub-agent's turn.
    Usage {
        /// Usage of the turn or side call.
        usage: Box<TurnUsage>,
        /// Plugin and purpose, if this is a side call; `spawn` and the agent's name for a sub-agent's turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side_call: Option<SideCallOf>,
    },
    /// Move of the leaf: the first entry of a branch. Its parent is `to`.
    Leaf {
        /// Entry that the branch continues from; `None` for the time before the first entry.
        to: Option<EntryId>,
        /// Leaf before the move.
        left: Option<EntryId>,
    },
    /// Label of an entry. The last one written counts, whichever branch it is on.
    Label {
        /// Entry with the label.
        target: EntryId,
        /// Text of the label; `None` removes it.
        label: Option<String>,
    },
    /// An entry that a plugin appended.
    Custom(CustomEntry),
}

impl EntryKind {
    /// Parses an entry as serialised by serde. Faster than serde if the kind comes first, because the data of
    /// a plugin's entry is not parsed.
    ///
    /// ```
    /// use zk_core::service::EntryKind;
    ///
    /// let run = EntryKind::from_json(r#"{"entry":"run_start","run_id":"r_1"}"#)?;
    /// assert_eq!(run, EntryKind::RunStart { run_id: "r_1".into() });
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the text is no known entry.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        // Serde buffers the whole text of an enum whose tag may come anywhere.
        if text.starts_with(r#"{"entry":"message","#) {
            let WrittenMessage { mut message, usage } = serde_json::from_str(text)?;
            // Most messages have one block, and serde reserves room for four.
            message.content.shrink_to_fit();
            return Ok(Self::Message { message: message.shared(), usage });
        }
        if text.starts_with(r#"{"entry":"custom","#) {
            let WrittenCustom { source, kind, version, data, audience } = serde_json::from_str(text)?;
            return Ok(Self::Custom(CustomEntry { source, kind, version, data: data.into(), audience }));
        }
        serde_json::from_str(text)
    }
}

/// Fields of [`EntryKind::Message`].
#[derive(Deserialize)]
struct WrittenMessage {
    message: Message,
    #[serde(default)]
    usage: Option<Box<TurnUsage>>,
}

/// Fields of [`CustomEntry`], with the data as unparsed text.
#[derive(Deserialize)]
struct WrittenCustom {
    source: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    version: u32,
    data: Box<RawValue>,
    #[serde(default)]
    audience: Audience,
}

/// Plugin and purpose of a side call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SideCallOf {
    /// Source of the plugin.
    pub source: String,
    /// Purpose of the call.
    pub purpose: String,
    /// Part of the agent that made the call, if it named one; for a sub-agent's turns, the sub-agent's part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

impl SideCallOf {
    /// Returns the name under which the cost is summed up: the part, or else the purpose.
    #[must_use]
    pub fn part_name(&self) -> &str {
        self.part.as_deref().unwrap_or(&self.purpose)
    }
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run finished normally.
    Completed,
    /// The run was stopped.
    Aborted,
    /// The run failed.
    Error,
}
