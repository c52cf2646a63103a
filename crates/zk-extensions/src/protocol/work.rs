use std::path::PathBuf;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::model::{Display, ToolContent};

/// Parameters of `event/ask`; the result is the reply of the event, `null` for none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EventQuestion<'a, D = Value> {
    /// Name of the event.
    pub event: &'a str,
    /// Id of the run; empty outside of a run.
    pub run: &'a str,
    /// Data of the event, as the reference of events describes it.
    pub data: D,
}

/// Parameters of the notification `event/tell`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EventTold<'a> {
    /// Name of the event.
    pub event: &'a str,
    /// Id of the run; empty outside of a run.
    pub run: &'a str,
    /// Number that grows with each event of the agent and its sub-agents, told or not.
    pub number: u64,
    /// Time of the event, in milliseconds since 1970.
    pub at_ms: u64,
    /// Data of the event.
    pub data: Value,
}

/// Parameters of `tool/call`; the result is a [`ToolReply`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolCall<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// Id of the call, for `tool/progress`.
    pub call: &'a str,
    /// Id of the run.
    pub run: &'a str,
    /// Directory that the call works in.
    pub cwd: PathBuf,
    /// Arguments, which fit the schema and were approved as they are.
    pub args: &'a Value,
}

/// Result of `tool/call`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ToolReply {
    /// Content for the model: a text, or blocks.
    pub content: ToolContent,
    /// Display form for the person.
    #[serde(default)]
    pub display: Option<Display>,
    /// Data for plugins, stored with the call.
    #[serde(default)]
    pub details: Option<Value>,
    /// Whether the call failed.
    #[serde(default)]
    pub failed: bool,
}

/// Parameters of `tool/preview`; the result is a display form, or `null`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Preview<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// Directory that the call would work in.
    pub cwd: PathBuf,
    /// Arguments of the call.
    pub args: &'a Value,
}

/// Parameters of the notification `tool/progress` of an extension: output of a call that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolProgress {
    /// Id of the call.
    pub call: String,
    /// Piece of output.
    pub text: String,
}

/// Parameters of `command/run`; the result is a [`CommandReply`], or `null` for nothing else to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CommandRun<'a> {
    /// Name of the command.
    pub name: &'a str,
    /// Text behind the name.
    pub args: &'a str,
    /// Id of the run; empty outside of a run.
    pub run: &'a str,
    /// Working directory of the conversation, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
}

/// Result of `command/run`: an object with one of these keys.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CommandReply {
    /// Text to show.
    Show(String),
    /// Prompt to send to the model.
    Prompt(String),
}

/// Parameters of `command/complete`; the result is a list of [`ArgumentNote`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CommandCompletion<'a> {
    /// Name of the command.
    pub name: &'a str,
    /// Arguments that are typed already.
    pub before: &'a str,
}

/// Argument that a command may be given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ArgumentNote {
    /// The argument, as it is typed.
    pub value: String,
    /// Remark on it in a few words.
    #[serde(default)]
    pub note: String,
}

/// Parameters of `section/text`; the result is the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SectionQuery<'a> {
    /// Id of the section.
    pub id: &'a str,
    /// Id of the run.
    pub run: &'a str,
}

/// Parameters of `context/text`; the result is the text, or `null` for nothing to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextQuery<'a> {
    /// Name of the producer.
    pub name: &'a str,
    /// Id of the run.
    pub run: &'a str,
}
