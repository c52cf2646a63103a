//! Reads and writes conversations of other programs, in the formats of Anthropic's Messages API and of
//! OpenAI's Chat Completions.
//!
//! ```
//! use serde_json::json;
//! use zk_core::model::{Model, ModelRef};
//! use zk_providers::formats::{Conversation, Format};
//!
//! let chat = json!([
//!     {"role": "system", "content": "You tell the time."},
//!     {"role": "user", "content": "What time is it?"},
//!     {"role": "assistant", "content": null, "tool_calls": [
//!         {"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": "{\"zone\":\"UTC\"}"}},
//!     ]},
//!     {"role": "tool", "tool_call_id": "call_1", "content": "12:00"},
//! ]);
//! let conversation = Conversation::read(&chat, &ModelRef::new("openai", "gpt-5.5"))?;
//! assert_eq!(conversation.system, "You tell the time.");
//! assert_eq!(conversation.messages[1].calls().next().unwrap().name, "clock");
//!
//! let claude = Model::unknown("anthropic", "claude-opus-5");
//! let body = conversation.write(Format::AnthropicMessages, &claude)?.into_body();
//! assert_eq!(body["messages"][1]["content"][0]["input"], json!({"zone": "UTC"}));
//! # Ok::<(), zk_providers::formats::FormatError>(())
//! ```
//!
//! # Preserved content
//!
//! Texts, images and documents with their bytes, calls and results with their ids, reasoning with its
//! signature or redacted, `reasoning_details`, citations, refusals, and blocks that only the Messages API
//! has: calls and results of tools that the provider runs, and its own compaction. An instruction before the
//! first message becomes part of the system prompt; a later one stays in place, as a user message that
//! `system` put there. A call in the old format, `function_call`, gets an id.
//!
//! # Dropped and rejected content
//!
//! Fields without meaning for a continued conversation are dropped: `cache_control`, the `name` of a message,
//! the `index` of a call, the `detail` of an image. Everything else that a history cannot represent is a
//! [`FormatError`] with its path: images, documents and files given by URL or id, since a history holds
//! bytes; documents that ask for citations; audio, video, calls of custom tools; and unknown non-empty
//! fields. Of a request body only the conversation is read and written; its other fields are settings,
//! including the `container` in which code ran.
//!
//! # Round trips
//!
//! A conversation that is written and read again is the same history to a provider, as far as the format can
//! represent it. Chat Completions cannot represent the boundaries between texts of a message, whether a
//! result is an error, or, at OpenAI, the model's thinking; text documents become part of the text, and
//! images of results follow the results.

mod chat;
mod detect;
mod draft;
mod error;
mod messages;
mod node;
mod write;

use std::sync::Arc;

use serde_json::Value;
use zk_core::model::{Message, ModelRef};

pub use error::FormatError;
use node::Node;
pub use write::Written;

/// Format of a stored conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The messages of Anthropic's Messages API.
    AnthropicMessages,
    /// The messages of OpenAI's Chat Completions, and of the many compatible servers.
    OpenAiChat,
}

/// A conversation, for building an agent that continues it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The system prompt; empty for none.
    pub system: String,
    /// Message history, in order.
    pub messages: Vec<Arc<Message>>,
}

impl Conversation {
    /// Reads a conversation in the format that [`Format::detect`] finds. If it finds none, the conversation
    /// is read as `OpenAiChat`, which makes no difference for plain text, and is an error otherwise. See
    /// [`Format::read`].
    ///
    /// ```
    /// use serde_json::json;
    /// use zk_core::model::ModelRef;
    /// use zk_providers::formats::Conversation;
    ///
    /// let body = json!({"system": "Be brief.", "messages": [{"role": "user", "content": "hello"}]});
    /// let conversation = Conversation::read(&body, &ModelRef::new("anthropic", "claude-opus-5"))?;
    /// assert_eq!(conversation.messages[0].text(), "hello");
    /// # Ok::<(), zk_providers::formats::FormatError>(())
    /// ```
    ///
    /// # Errors
    /// [`FormatError`] when a part violates the format, or cannot be represented in a history.
    pub fn read(value: &Value, origin: &ModelRef) -> Result<Self, FormatError> {
        Format::detect(value).unwrap_or(Format::OpenAiChat).read(value, origin)
    }
}

impl Format {
    /// Reads a list of messages, or a request body with one.
    ///
    /// `origin` is the model that the conversation was held with. Reasoning and provider data are sent back
    /// to this model only; a conversation that continues with another model can name any.
    ///
    /// ```
    /// use serde_json::json;
    /// use zk_core::model::{Block, ModelRef};
    /// use zk_providers::formats::Format;
    ///
    /// let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    /// let messages = json!([{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}]);
    /// let conversation = Format::OpenAiChat.read(&messages, &ModelRef::new("openai", "gpt-5.5"))?;
    /// assert!(matches!(conversation.messages[0].content[1], Block::Image(_)));
    /// # Ok::<(), zk_providers::formats::FormatError>(())
    /// ```
    ///
    /// # Errors
    /// [`FormatError`] when a part violates the format, or cannot be represented in a history.
    pub fn read(self, value: &Value, origin: &ModelRef) -> Result<Conversation, FormatError> {
        let body = Node::new("", value);
        let (system, list) = match value {
            Value::Array(_) => (None, Node::new("messages", value)),
            Value::Object(_) => (body.field("system"), body.at("messages")),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(Node::new("messages", value).unexpected("a list of messages"));
            }
        };
        match self {
            Self::AnthropicMessages => messages::read(system.as_ref(), &list, origin),
            Self::OpenAiChat => match system {
                Some(system) => Err(system.unexpected("a message of the role `system`")),
                None => chat::read(&list, origin),
            },
        }
    }
}
