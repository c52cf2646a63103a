use schemars::JsonSchema;
use serde::Serialize;

use super::notify;
use crate::model::{CallId, TurnId};

/// A response began to arrive.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StreamStart {
    /// The turn.
    pub turn_id: TurnId,
    /// The model that answers, if the provider says.
    pub model: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
}
notify!(StreamStart, "stream:start");

/// More text of the answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StreamText {
    /// The turn.
    pub turn_id: TurnId,
    /// The text.
    pub delta: String,
}
notify!(StreamText, "stream:text");

/// More reasoning.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StreamThinking {
    /// The turn.
    pub turn_id: TurnId,
    /// The text.
    pub delta: String,
}
notify!(StreamThinking, "stream:thinking");

/// More of a tool call's arguments, as raw text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StreamToolArgs {
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub call_id: CallId,
    /// The tool, canonical.
    pub name: String,
    /// The text; empty when the call begins.
    pub delta: String,
}
notify!(StreamToolArgs, "stream:tool-args");

/// A tool call's arguments were no JSON as the model wrote them, and could be read once characters that may not
/// stand in a string were escaped. Nothing was guessed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolArgsRepaired {
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub call_id: CallId,
    /// The tool, canonical.
    pub name: String,
    /// What the model wrote.
    pub text: String,
}
notify!(ToolArgsRepaired, "stream:tool-args-repaired");

/// A block arrived that only its provider understands: a tool it ran itself, say.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StreamProvider {
    /// The turn.
    pub turn_id: TurnId,
    /// What it is, in a few words for people.
    pub text: String,
}
notify!(StreamProvider, "stream:provider");

/// The text of the answer is complete. Not announced for an answer without text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StreamEnd {
    /// The turn.
    pub turn_id: TurnId,
    /// The whole text.
    pub text: String,
}
notify!(StreamEnd, "stream:end");
