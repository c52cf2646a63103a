use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zk_core::model::{Message, Usage};

/// Parameters of `backend/turn`; the result is a [`BackendReply`]. Every turn has the whole conversation, so a backend needs
/// no memory of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BackendTurn<'a> {
    /// Name of the backend.
    pub backend: &'a str,
    /// Id of the turn, for `backend/text`.
    pub turn: String,
    /// Id of the run.
    pub run: &'a str,
    /// Key of the conversation, if it is stored; a sub-agent has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Id of the chosen model.
    pub model: &'a str,
    /// Directory that the run works in, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Text that was said since the last answer; empty if only results of calls came.
    pub prompt: String,
    /// System prompt as zk's own agent would have it.
    pub system: &'a str,
    /// Tools of zk that the reply may call.
    pub tools: Vec<OfferedTool<'a>>,
    /// The conversation: prompts, answers, calls and their results, oldest first.
    pub messages: Vec<&'a Message>,
}

/// Tool of zk that a backend may have called.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OfferedTool<'a> {
    /// Name of the tool.
    pub name: &'a str,
    /// Description for a model.
    pub description: &'a str,
    /// JSON Schema of the arguments.
    pub schema: &'a Value,
}

/// Result of `backend/turn`. With calls, zk runs them as those of its own agent, through gates and permissions, and asks for
/// the next turn with their results; without, the answer is complete.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BackendReply {
    /// Text behind what `backend/text` sent.
    pub text: String,
    /// Calls of zk's tools.
    pub calls: Vec<AskedCall>,
    /// Tokens that the turn cost, for the statistics.
    pub usage: Option<Usage>,
}

/// Call of a tool of zk that a backend wants.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AskedCall {
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    #[serde(default)]
    pub args: Map<String, Value>,
}

/// Parameters of the notification `backend/text` of an extension: the next piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BackendText {
    /// Id of the turn.
    pub turn: String,
    /// Piece of the text.
    pub text: String,
    /// Whether it is a thought, which is shown apart from the answer.
    #[serde(default)]
    pub thought: bool,
}
