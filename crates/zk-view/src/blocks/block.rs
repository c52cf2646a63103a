use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::model::MessageId;
use zk_core::service::RunStatus;

use crate::{Body, Call, CallState, Text};

/// Id of a block: unique in its view, and the same each time the stored session is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct BlockId(Arc<str>);

impl BlockId {
    pub(crate) fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One piece of a conversation as it is shown. Once it is closed it never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Block {
    /// Id of the block.
    pub id: BlockId,
    /// Whether it is complete.
    pub closed: bool,
    /// The sub-agent it belongs to; nothing for the conversation's own agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Arc<SubAgent>>,
    /// The message that it shows a part of, once that is part of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Content of the block.
    pub content: Content,
}

/// A sub-agent of the conversation's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubAgent {
    /// Name of the sub-agent.
    pub name: Text,
    /// 1 for a child of the conversation's agent, one more for each generation.
    pub depth: u32,
}

/// Content of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Message of the person.
    User {
        /// The text.
        text: Text,
        /// Number of images and documents that came with it.
        attachments: u32,
    },
    /// Message that somebody else put into the conversation: a budget, a steering message, a plugin.
    Injected {
        /// Author of the message.
        by: Text,
        /// The text.
        text: Text,
    },
    /// The model's reasoning; empty where its provider withholds it.
    Thinking {
        /// The text.
        text: Text,
        /// Milliseconds from the beginning of the reasoning to its end, once that came and if both were seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thought_ms: Option<u64>,
    },
    /// The model's answer.
    Answer {
        /// The text.
        text: Text,
        /// End of the answer.
        #[serde(default)]
        end: AnswerEnd,
    },
    /// A tool call.
    Call(Box<Call>),
    /// Acts of the provider beside answering, in a few words.
    Provider {
        /// The words.
        text: Text,
    },
    /// Stands for messages that a compaction took out of the context.
    Summary {
        /// The summary.
        text: Text,
    },
    /// Content that a plugin shows.
    Plugin(Box<PluginBlock>),
    /// The end of a run.
    End(RunEnd),
    /// A notice about something that passes. Not part of the stored session.
    Note {
        /// Importance of the notice.
        level: NoteLevel,
        /// The text.
        text: Text,
    },
}

impl Content {
    /// The body, of content that may have one.
    #[must_use]
    pub fn body(&self) -> Option<&Body> {
        match self {
            Self::Call(call) => call.body.as_ref(),
            Self::Plugin(plugin) => Some(&plugin.body),
            Self::User { .. }
            | Self::Injected { .. }
            | Self::Thinking { .. }
            | Self::Answer { .. }
            | Self::Provider { .. }
            | Self::Summary { .. }
            | Self::End(_)
            | Self::Note { .. } => None,
        }
    }
}

/// Content that a plugin shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct PluginBlock {
    /// The plugin.
    pub source: Text,
    /// Kind of the content, in the plugin's own words.
    pub kind: Text,
    /// A line above the body.
    pub title: Text,
    /// The body.
    pub body: Body,
}

/// End of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum AnswerEnd {
    /// Answer that is whole, or still growing.
    #[default]
    Whole,
    /// The output limit cut it.
    MaxTokens,
    /// The context window was full.
    WindowFull,
    /// The model said nothing at all.
    Empty,
    /// The model or a filter refused.
    Refused,
    /// The run was stopped.
    Stopped,
    /// The response broke off.
    Broken,
    /// Broken off, and the request was sent again: it is no part of the conversation.
    SentAgain,
    /// The provider gave a reason that zk does not know.
    Other {
        /// The reason.
        reason: Text,
    },
}

impl AnswerEnd {
    /// Remark on the end; nothing for an answer that is whole.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let remark = match self {
            Self::Whole => return None,
            Self::MaxTokens => "cut by the output limit: say `go on` for the rest",
            Self::WindowFull => "cut: the context window was full",
            Self::Empty => "the model said nothing",
            Self::Refused => "the model refused to answer",
            Self::Stopped => "stopped",
            Self::Broken => "broke off",
            Self::SentAgain => "broken off, sent again",
            Self::Other { reason } => return Some(format!("ended with `{reason}`")),
        };
        Some(remark.to_owned())
    }
}

/// End of a run, and what the run took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunEnd {
    /// Status with which the run ended.
    pub status: RunStatus,
    /// The error it ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
    /// Turns of the run.
    pub turns: u32,
    /// Tokens it read, cached ones included.
    pub tokens_read: u64,
    /// Tokens the model wrote.
    pub tokens_written: u64,
    /// Cost of the run in US dollars, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Whether the cost of some turn is not known: `cost` is the least that all of them cost.
    pub cost_is_partial: bool,
    /// Milliseconds it took.
    pub duration_ms: u64,
}

/// Importance of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoteLevel {
    /// Good to know.
    Info,
    /// Something is not as it should be.
    Warning,
}

impl Block {
    /// Appends to a block that is still open; anything else stays as it is. Of a running call's output only the
    /// end is kept.
    pub(crate) fn grow(&mut self, delta: &Text) {
        match &mut self.content {
            Content::Answer { text, .. } | Content::Thinking { text, .. } => text.append(delta),
            Content::Call(call) => call.add_progress(delta),
            Content::User { .. }
            | Content::Injected { .. }
            | Content::Provider { .. }
            | Content::Summary { .. }
            | Content::Plugin(_)
            | Content::End(_)
            | Content::Note { .. } => {}
        }
    }

    /// Whether it is a part of an answer that arrives, of which nothing stays if that breaks off.
    pub(crate) fn is_arriving(&self) -> bool {
        match &self.content {
            Content::Call(call) => call.state == CallState::Writing,
            Content::Thinking { .. }
            | Content::Answer { .. }
            | Content::Provider { .. }
            | Content::Summary { .. } => !self.closed,
            Content::User { .. }
            | Content::Injected { .. }
            | Content::Plugin(_)
            | Content::End(_)
            | Content::Note { .. } => false,
        }
    }

    /// Whether the stored session shows it too, once its run has ended: notices and the end of a run without an
    /// answer are not in it.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.agent.is_some() || self.id.as_str().starts_with('b')
    }
}
