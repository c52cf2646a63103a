use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zk_core::model::MessageId;
use zk_core::service::RunStatus;

use crate::{Body, Call, CallState, Text};

/// Id of a block: unique in its view, and stable when the stored session is shown again.
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

/// Block of a conversation as shown. Immutable once closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Block {
    /// Id of the block.
    pub id: BlockId,
    /// Whether it is complete.
    pub closed: bool,
    /// Sub-agent of the block; `None` for the main agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Arc<SubAgent>>,
    /// Message that the block is part of, once the message has joined the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Content of the block.
    pub content: Content,
}

/// A sub-agent of the conversation's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubAgent {
    /// Name of the sub-agent, unique in the tree of agents.
    pub name: Text,
    /// Depth of the agent, 1 for a child of the main agent.
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
        /// Number of attached images and documents.
        attachments: u32,
        /// Line that the person typed, if a command made the text of it. Unknown in a resumed session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<Text>,
    },
    /// Message from another source: a budget, a steering text, a plugin.
    Injected {
        /// Author of the message.
        by: Text,
        /// The text.
        text: Text,
    },
    /// Reasoning of the model; empty if its provider withholds it.
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
    /// Server-side action of the provider, in a few words.
    Provider {
        /// Description of the action.
        text: Text,
    },
    /// Summary of messages that a compaction removed from the context.
    Summary {
        /// The summary.
        text: Text,
    },
    /// Content that a plugin shows.
    Plugin(Box<PluginBlock>),
    /// End of a run.
    End(RunEnd),
    /// Transient notice. Not part of the stored session.
    Note {
        /// Importance of the notice.
        level: NoteLevel,
        /// The text.
        text: Text,
    },
}

impl Content {
    /// Body of the content, if its kind has one.
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
    /// Kind of the content, as the plugin names it.
    pub kind: Text,
    /// A line above the body.
    pub title: Text,
    /// The body.
    pub body: Body,
}

/// Completeness of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum AnswerEnd {
    /// Complete answer, or one that is still growing.
    #[default]
    Whole,
    /// The output limit cut it.
    MaxTokens,
    /// The context window was full.
    WindowFull,
    /// Answer without any content.
    Empty,
    /// The model or a filter refused.
    Refused,
    /// The run was stopped.
    Stopped,
    /// The response broke off.
    Broken,
    /// Broken-off answer whose request was retried: not part of the conversation.
    SentAgain,
    /// The provider gave a reason that zk does not know.
    Other {
        /// The reason.
        reason: Text,
    },
}

impl AnswerEnd {
    /// Remark on the end; `None` for a complete answer.
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

/// End of a run, with cost and duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunEnd {
    /// Final status of the run.
    pub status: RunStatus,
    /// The error it ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
    /// Turns of the run.
    pub turns: u32,
    /// Input tokens of the run, cached ones included.
    pub tokens_read: u64,
    /// Tokens the model wrote.
    pub tokens_written: u64,
    /// Cost of the run in US dollars, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Whether some turn's cost is unknown, so that `cost` is a lower bound.
    pub cost_is_partial: bool,
    /// Duration of the run in milliseconds.
    pub duration_ms: u64,
}

/// Importance of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoteLevel {
    /// Good to know.
    Info,
    /// Warning.
    Warning,
}

impl Block {
    /// Appends to an open block; other blocks ignore it. The output of a running call keeps only its tail.
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

    /// Whether it is part of an arriving answer, to be dropped if the answer breaks off.
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

    /// Whether the stored session shows it after the run: false for notices and for the end of a run without
    /// an answer.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.agent.is_some() || self.id.as_str().starts_with('b')
    }
}
