//! The one door to the wire: [`WireReady`], a history any provider accepts.
//!
//! Adapters take only a `WireReady`, and only [`WireReady::normalise`] makes one, so no request can carry an
//! unanswered call, an orphan result, an empty message, or an id or a name its provider rejects. The normaliser never
//! changes the stored history; it is idempotent, and it decides by what stands before a message and directly
//! after it, so the bytes of one request are a prefix of the next.

mod blocks;
mod ids;
mod media;
mod names;
mod pair;
#[cfg(test)]
mod tests;

use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::{Block, CallId, Message, ModelRef, Thinking};

pub use ids::IdRule;
pub use media::MediaTypes;

/// Placeholder for the result of a call that has none.
pub const INTERRUPTED: &str =
    "Interrupted: no result was recorded for this call. Its effects are unknown; check before repeating it.";
/// Placeholder for a result without content.
pub const NO_OUTPUT: &str = "(no output)";
/// The first message of a history that does not begin with the user.
pub const OPENING: &str = "(The beginning of this conversation is not available.)";
/// The last message of a history that does not end with the user, the only one of a history that says nothing.
pub const CONTINUE: &str = "Continue.";
/// Placeholder for an image the model cannot see.
pub const IMAGE_OMITTED: &str = "[image omitted: this model cannot see images]";
/// Placeholder for an image that a model made, where answers cannot carry one.
pub const MADE_IMAGE_OMITTED: &str = "[image omitted: it was made in this answer and cannot be shown again]";
/// Placeholder in a tool result for an image that follows after the results.
pub const IMAGE_FOLLOWS: &str = "[image: attached after the tool results]";
/// Placeholder in a tool result for a document that follows after the results.
pub const DOCUMENT_FOLLOWS: &str = "[document: attached after the tool results]";
/// The argument under which arguments that did not parse are shown to the model again.
pub const MALFORMED_KEY: &str = "malformed_arguments";

/// Rules of one provider and model for what they accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireRules {
    /// The model the history is for.
    pub target: ModelRef,
    /// Rule for tool-call ids, unless the target gave them itself.
    pub ids: IdRule,
    /// Whether the model sees images, and documents that are not text.
    pub vision: bool,
    /// The types of images and documents that are taken. What stands for the others says so.
    pub media: MediaTypes,
    /// Whether a tool result may carry them; otherwise they follow the results.
    pub image_in_tool_result: bool,
    /// Whether an answer may carry the images its model made when it goes back.
    pub image_in_answer: bool,
    /// Selection of the thinking that goes back.
    pub thinking: ThinkingReplay,
    /// Whether the provider goes on with its own message when a history ends with one it paused
    /// ([`StopReason::is_pause`](super::StopReason::is_pause)); otherwise the user asks it to.
    pub resumes: bool,
}

/// Selection of the thinking blocks that go back to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingReplay {
    /// None.
    Never,
    /// Signed or redacted blocks of the same model, verbatim.
    Signed,
    /// Every block of the same model, signed or not: for models that want their reasoning echoed.
    Echo,
}

impl WireRules {
    /// The most tolerant rules: what an unknown endpoint is likely to accept.
    #[must_use]
    pub fn tolerant(target: ModelRef) -> Self {
        Self {
            target,
            ids: IdRule::UP_TO_40,
            vision: true,
            media: MediaTypes::ANY,
            image_in_tool_result: false,
            image_in_answer: false,
            thinking: ThinkingReplay::Never,
            resumes: false,
        }
    }
}

/// One thing the normaliser had to mend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "repair", rename_all = "snake_case")]
pub enum Repair {
    /// A call without a result got one that says so.
    MissingResult {
        /// The call.
        call_id: CallId,
    },
    /// A result without a call directly before it, or a second one, was left out.
    OrphanResult {
        /// The id it names.
        call_id: CallId,
    },
    /// A call got another id: its own was used before, or comes from elsewhere and is illegal at this provider.
    NewId {
        /// The id as stored.
        stored: CallId,
        /// The id as sent.
        sent: CallId,
    },
    /// A call got another name: no provider takes back the one the model made up.
    NewName {
        /// The name as stored.
        stored: String,
        /// The name as sent.
        sent: String,
    },
    /// A response that failed or was refused was left out.
    FailedResponse,
    /// The history did not begin or end with the user.
    Boundary,
}

/// A history a provider cannot reject: see the [module](self).
///
/// ```
/// use zk_core::model::{Block, Message, ModelRef, ToolCall, WireReady, WireRules};
///
/// let call = Block::ToolCall(ToolCall::new("c1", "shell", serde_json::json!({"command": "ls"})));
/// let history = [Message::user_text("list the files").shared(), Message::assistant(vec![call]).shared()];
/// let ready = WireReady::normalise(&history, &WireRules::tolerant(ModelRef::new("any", "model")));
/// assert_eq!(ready.messages().len(), 3, "the interrupted call was answered");
/// ```
#[derive(Clone, Debug)]
pub struct WireReady {
    messages: Vec<Arc<Message>>,
    repairs: Vec<Repair>,
}

impl WireReady {
    /// Makes `history` acceptable under `rules`. Messages that need no change are shared, not copied.
    #[must_use]
    pub fn normalise(history: &[Arc<Message>], rules: &WireRules) -> Self {
        pair::normalise(history, rules)
    }

    /// Returns the history without the thinking that `is_unwanted` names. Every message still says something,
    /// since none is made of thinking alone.
    #[must_use]
    pub fn without_thinking(&self, is_unwanted: impl Fn(&Thinking) -> bool) -> Self {
        let goes = |block: &Block| matches!(block, Block::Thinking(thinking) if is_unwanted(thinking));
        let message = |message: &Arc<Message>| {
            if !message.content.iter().any(goes) {
                return message.clone();
            }
            let mut message = Message::clone(message);
            message.content.retain(|block| !goes(block));
            message.shared()
        };
        Self { messages: self.messages.iter().map(message).collect(), repairs: self.repairs.clone() }
    }

    /// The messages: at least one, alternating, beginning with the user, and ending with the user unless the
    /// last one is the provider's to go on with.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns the repairs that were made.
    #[must_use]
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }
}
