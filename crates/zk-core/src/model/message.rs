use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Block, MessageId, ModelRef, StopReason, ToolCall, ToolResult};

/// Prefix of [`Message::injected_by`] for the content of a file that a person mentioned with `@`. The file's
/// name and extent follow, such as `@cart.py · 42 lines`.
pub const MENTIONED_BY: &str = "@";

/// Values of [`Message::injected_by`] for messages that a person typed during a run: `steer` before its next turn, and
/// `follow-up` after its last one.
pub const TYPED_DURING_RUN: [&str; 2] = ["steer", "follow-up"];

/// Author role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user, or tools giving their results.
    User,
    /// The model, in its answers.
    Assistant,
}

/// One message of a conversation's history.
///
/// Messages are shared as `Arc<Message>` and never changed once they are in a history, so that an encoding
/// made for one request is reused for the next.
///
/// Two messages are equal if everything but their ids is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Message {
    /// Id of the message, assigned by the agent when it joins the conversation, before it is stored.
    /// Providers do not get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<MessageId>,
    /// Author role of the message.
    pub role: Role,
    /// Content blocks of the message, in order.
    pub content: Vec<Block>,
    /// Model that wrote an assistant message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<ModelRef>,
    /// Reason for which the response of an assistant message ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// Source of a user message that the person did not write: a budget, a steering message, a plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injected_by: Option<String>,
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        let Self { id: _, role, content, origin, stop, injected_by } = self;
        *role == other.role
            && *content == other.content
            && *origin == other.origin
            && *stop == other.stop
            && *injected_by == other.injected_by
    }
}

impl Message {
    /// Creates a user message of these blocks.
    #[must_use]
    pub fn user(content: Vec<Block>) -> Self {
        Self { id: None, role: Role::User, content, origin: None, stop: None, injected_by: None }
    }

    /// Creates a user message of one text.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self::user(vec![Block::text(text)])
    }

    /// Creates an assistant message of these blocks.
    #[must_use]
    pub fn assistant(content: Vec<Block>) -> Self {
        Self { role: Role::Assistant, ..Self::user(content) }
    }

    /// Creates a user message that `by` put into the conversation.
    pub fn injected(text: impl Into<String>, by: impl Into<String>) -> Self {
        Self { injected_by: Some(by.into()), ..Self::user_text(text) }
    }

    /// Returns the tool calls of the message, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            Block::Text(_)
            | Block::Image(_)
            | Block::Document(_)
            | Block::ToolResult(_)
            | Block::Thinking(_)
            | Block::Compaction(_)
            | Block::Provider(_) => None,
        })
    }

    /// Returns the tool results of the message, in order.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.content.iter().filter_map(Block::as_result)
    }

    /// Returns the joined text blocks, without thinking, calls or results.
    #[must_use]
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Block::as_text).collect::<Vec<_>>().concat()
    }

    /// Returns the message with its id, or with a fresh one if it has none.
    #[must_use]
    pub fn identified(mut self) -> Self {
        self.id.get_or_insert_with(MessageId::fresh);
        self
    }

    /// Wraps the message in an `Arc`.
    #[must_use]
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}
