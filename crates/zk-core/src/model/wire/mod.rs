//! Normalisation of a history for sending: [`WireReady`] is a history that any provider accepts.
//!
//! Adapters accept only a `WireReady`, and only [`WireReady::normalise`] makes one. So no request can carry
//! an unanswered call, an orphan result, an empty message, or an id or name that the provider rejects. The
//! normaliser never changes the stored history. It is idempotent, and decides on each message only by the
//! messages before and directly after it, so the bytes of one request are a prefix of the next.

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

use super::{Block, CallId, Message, ModelRef, Thinking, ToolCall};

pub use ids::IdRule;
pub use media::MediaTypes;

/// Placeholder for the result of a call that has none.
pub const INTERRUPTED: &str =
    "Interrupted: no result was recorded for this call. Its effects are unknown; check before repeating it.";
/// Placeholder for a result without content.
pub const NO_OUTPUT: &str = "(no output)";
/// Text of the user message that is put before a history that begins with another role.
pub const OPENING: &str = "(The beginning of this conversation is not available.)";
/// Text of the user message that is put after a history that ends with another role or is empty.
pub const CONTINUE: &str = "Continue.";
/// Placeholder for an image the model cannot see.
pub const IMAGE_OMITTED: &str = "[image omitted: this model cannot see images]";
/// Placeholder for an image that a model made, where answers cannot carry one.
pub const MADE_IMAGE_OMITTED: &str = "[image omitted: it was made in this answer and cannot be shown again]";
/// Placeholder in a tool result for an image that follows after the results.
pub const IMAGE_FOLLOWS: &str = "[image: attached after the tool results]";
/// Placeholder in a tool result for a document that follows after the results.
pub const DOCUMENT_FOLLOWS: &str = "[document: attached after the tool results]";
/// Key of the argument that shows malformed arguments to the model again.
pub const MALFORMED_KEY: &str = "malformed_arguments";

/// Requirements of a provider and model on a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireRules {
    /// Model that the history is sent to.
    pub target: ModelRef,
    /// Rule for tool-call ids that the target did not assign itself.
    pub ids: IdRule,
    /// Whether the model accepts images, and documents that are not text.
    pub vision: bool,
    /// Accepted types of images and documents. Others are replaced by a placeholder.
    pub media: MediaTypes,
    /// Whether a tool result may carry images and documents; otherwise they follow the results.
    pub image_in_tool_result: bool,
    /// Whether an assistant message may carry images that the model made.
    pub image_in_answer: bool,
    /// Selection of the thinking blocks that are sent back.
    pub thinking: ThinkingReplay,
    /// Whether the provider continues a message that it paused
    /// ([`StopReason::is_pause`](super::StopReason::is_pause)) when the history ends with it; otherwise a
    /// user message asks for that.
    pub resumes: bool,
}

/// Selection of the thinking blocks that are sent back to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingReplay {
    /// No thinking blocks.
    Never,
    /// Signed or redacted blocks of the same model, verbatim.
    Signed,
    /// Every block of the same model, signed or not: for models that want their reasoning echoed.
    Echo,
}

impl WireRules {
    /// Returns the most tolerant rules, which an unknown endpoint is likely to satisfy.
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

/// A repair that the normaliser made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "repair", rename_all = "snake_case")]
pub enum Repair {
    /// A placeholder result was added to a call that had none.
    MissingResult {
        /// Id of the call.
        call_id: CallId,
    },
    /// A result was left out, because its call is not directly before it, or has a result already.
    OrphanResult {
        /// Call id that the result names.
        call_id: CallId,
    },
    /// A call got another id: its own was used before, or is illegal at this provider.
    NewId {
        /// Call id as stored.
        stored: CallId,
        /// Call id as sent.
        sent: CallId,
    },
    /// A call was renamed, because the model invented a name that no provider accepts back.
    NewName {
        /// Tool name as stored.
        stored: String,
        /// Tool name as sent.
        sent: String,
    },
    /// A failed or refused response was left out.
    FailedResponse,
    /// A user message was added, because the history did not begin or end with the user.
    Boundary,
}

/// A history that no provider rejects: see the [module](self).
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
    /// Normalises `history` under `rules`. Messages that need no change are shared, not copied.
    #[must_use]
    pub fn normalise(history: &[Arc<Message>], rules: &WireRules) -> Self {
        pair::normalise(history, rules)
    }

    /// Returns the history without the thinking blocks selected by `is_unwanted`. Every message keeps other
    /// content.
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

    /// Returns the history with each call replaced by the result of `change`, unless that is `None`: for a
    /// provider that offers tools under other names. Ids stay unchanged.
    #[must_use]
    pub fn with_calls(&self, change: impl Fn(&ToolCall) -> Option<ToolCall>) -> Self {
        let message = |message: &Arc<Message>| {
            let block = |block: &Block| match block {
                Block::ToolCall(call) => change(call).map(Block::ToolCall),
                _ => None,
            };
            let changed: Vec<Option<Block>> = message.content.iter().map(block).collect();
            if changed.iter().all(Option::is_none) {
                return message.clone();
            }
            let blocks = message.content.iter().zip(changed);
            let content = blocks.map(|(block, changed)| changed.unwrap_or_else(|| block.clone())).collect();
            Message { content, ..Message::clone(message) }.shared()
        };
        Self { messages: self.messages.iter().map(message).collect(), repairs: self.repairs.clone() }
    }

    /// Returns the messages: at least one, with alternating roles. The first is the user's, and so is the
    /// last unless the provider paused it and is to continue it.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns the repairs that were made to the history.
    #[must_use]
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }
}
