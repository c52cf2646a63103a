use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{CallId, TurnId};

/// A response began to arrive.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamStart {
    /// The turn.
    pub turn_id: TurnId,
    /// The model that answers, if the provider says.
    pub model: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
}
notify!(StreamStart, "stream:start");

/// More text of the answer is on its way to those who show it. A handler answers with the text to show
/// instead: it may hold back what it has to see more of, and has to let go of it where the text ends. The
/// message, the history and `stream:end` have what the model wrote.
///
/// Each block of text ends with one of these whose `last` is true, also when the answer breaks off in it; a run
/// that is being stopped does not wait for a handler there. Nothing is announced where nobody handles it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamTransform {
    /// The turn.
    pub turn_id: TurnId,
    /// The text so far; empty when nothing but the end is left to tell.
    pub delta: String,
    /// Whether no more of this block of text follows.
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

/// More text of the answer, as `stream:transform` left it: what is shown to people.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamText {
    /// The turn.
    pub turn_id: TurnId,
    /// The text.
    pub delta: String,
}
notify!(StreamText, "stream:text");

/// More reasoning.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamThinking {
    /// The turn.
    pub turn_id: TurnId,
    /// The text.
    pub delta: String,
}
notify!(StreamThinking, "stream:thinking");

/// More of a tool call's arguments, as raw text.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamToolArgs {
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub call_id: CallId,
    /// The tool, canonical; the pieces of a call share it.
    pub name: Arc<str>,
    /// The text; empty when the call begins.
    pub delta: String,
}
notify!(StreamToolArgs, "stream:tool-args");

/// A tool call's arguments were no JSON as the model wrote them, and could be read once characters that may not
/// stand in a string were escaped. Nothing was guessed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolArgsRepaired {
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub call_id: CallId,
    /// The tool, canonical.
    pub name: String,
    /// Text that the model wrote.
    pub text: String,
}
notify!(ToolArgsRepaired, "stream:tool-args-repaired");

/// A block arrived that only its provider understands: a tool it ran itself, say.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamProvider {
    /// The turn.
    pub turn_id: TurnId,
    /// Description of the block, in a few words for people.
    pub text: String,
}
notify!(StreamProvider, "stream:provider");

/// The text of the answer is complete. Not announced for an answer without text.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamEnd {
    /// The turn.
    pub turn_id: TurnId,
    /// The whole text, as the model wrote it.
    pub text: String,
}
notify!(StreamEnd, "stream:end");
