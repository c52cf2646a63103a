use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reason for which a model's response ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "reason", content = "detail", rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    /// The model waits for the results of its tool calls.
    ToolUse,
    /// The output limit was reached. The last tool call may be incomplete and is never executed.
    MaxTokens,
    /// A stop sequence was reached, named if the provider says which.
    StopSequence(Option<String>),
    /// The model or a filter refused to answer, with an explanation if the provider gives one.
    Refusal(Option<String>),
    /// The provider paused a long turn; sending the same history again continues it.
    PauseTurn,
    /// The context window is full.
    ContextExceeded,
    /// The provider compacted the context and paused; sending the same history again continues the turn.
    Compaction,
    /// The run was stopped; the message contains the received part.
    Aborted,
    /// The response failed; the message contains the received part.
    Error,
    /// A reason that this version does not know, as the provider wrote it. The turn ends.
    Other(String),
}

impl StopReason {
    /// Whether the message is the received part of a response that broke off, so that an answer is still due.
    #[must_use]
    pub fn is_broken_off(&self) -> bool {
        matches!(self, Self::Aborted | Self::Error)
    }

    /// Whether the provider continues its own message when the same history is sent again.
    #[must_use]
    pub fn is_pause(&self) -> bool {
        matches!(self, Self::PauseTurn | Self::Compaction)
    }

    /// Returns the reason's name in JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence(_) => "stop_sequence",
            Self::Refusal(_) => "refusal",
            Self::PauseTurn => "pause_turn",
            Self::ContextExceeded => "context_exceeded",
            Self::Compaction => "compaction",
            Self::Aborted => "aborted",
            Self::Error => "error",
            Self::Other(raw) => raw,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
