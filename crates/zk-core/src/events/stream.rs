use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{CallId, TurnId};

/// The response of a turn began to arrive.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamStart {
    /// Turn that the response belongs to.
    pub turn_id: TurnId,
    /// Id of the model that answers, if the provider says so.
    pub model: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
}
notify!(StreamStart, "stream:start");

/// A piece of answer text on its way to front-ends. A handler answers with the text to show instead. It may
/// hold text back until it has seen more, and has to release it where the block of text ends. The message,
/// the history and `stream:end` keep the text of the model unchanged.
///
/// The last event of each block of text has `last` set, also when the answer breaks off; a run that is being
/// stopped does not wait for handlers there. Not announced without handlers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamTransform {
    /// Turn whose answer the text belongs to.
    pub turn_id: TurnId,
    /// The text so far; empty if only the end of the block is announced.
    pub delta: String,
    /// Whether this piece ends the block of text.
    pub last: bool,
}

impl Event for StreamTransform {
    const NAME: &'static str = "stream:transform";
    type Reply = String;
    type Mode = Fold;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
}

impl Absorb for StreamTransform {
    fn absorb(&mut self, reply: String, _: &Source) -> ControlFlow<()> {
        self.delta = reply;
        ControlFlow::Continue(())
    }
}

/// More text of the answer, as `stream:transform` left it, for display.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamText {
    /// Turn whose answer the text belongs to.
    pub turn_id: TurnId,
    /// Text to append to the answer.
    pub delta: String,
}
notify!(StreamText, "stream:text");

/// More of the model's reasoning.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamThinking {
    /// Turn that the reasoning belongs to.
    pub turn_id: TurnId,
    /// Text to append to the reasoning.
    pub delta: String,
}
notify!(StreamThinking, "stream:thinking");

/// More of a tool call's arguments, as raw JSON text.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamToolArgs {
    /// Turn in which the model makes the call.
    pub turn_id: TurnId,
    /// Id of the call.
    pub call_id: CallId,
    /// Canonical name of the tool; all pieces of a call share this string.
    pub name: Arc<str>,
    /// Text to append to the arguments; empty when the call begins.
    pub delta: String,
}
notify!(StreamToolArgs, "stream:tool-args");

/// The arguments of a tool call were invalid JSON, and became valid by escaping characters that a string may
/// not contain. Nothing else was changed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolArgsRepaired {
    /// Turn in which the model made the call.
    pub turn_id: TurnId,
    /// Id of the call.
    pub call_id: CallId,
    /// Canonical name of the tool.
    pub name: String,
    /// Arguments as the model wrote them.
    pub text: String,
}
notify!(ToolArgsRepaired, "stream:tool-args-repaired");

/// A block arrived that only its provider understands, such as a call of a tool that the provider runs
/// itself.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamProvider {
    /// Turn of the response.
    pub turn_id: TurnId,
    /// Description of the block, in a few words for people.
    pub text: String,
}
notify!(StreamProvider, "stream:provider");

/// The text of the answer is complete. Not announced for an answer without text.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamEnd {
    /// Turn that the answer belongs to.
    pub turn_id: TurnId,
    /// The whole text, as the model wrote it.
    pub text: String,
}
notify!(StreamEnd, "stream:end");
