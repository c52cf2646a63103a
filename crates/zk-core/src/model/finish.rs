use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reason for which a model's response ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "reason", content = "detail", rename_all = "snake_case")]
pub enum StopReason {
    /// The model said all it wanted.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    /// The output limit; the last tool call may be cut and is never executed.
    MaxTokens,
    /// A stop sequence, this one if the provider says which.
    StopSequence(Option<String>),
    /// The model or a filter refused; the text explains, if the provider does.
    Refusal(Option<String>),
    /// The provider paused a long turn; the same history is sent again to go on.
    PauseTurn,
    /// The context window is full.
    ContextExceeded,
    /// The provider compacted the context and paused; the same history is sent again to go on.
    Compaction,
    /// The run was stopped; the message holds what had arrived.
    Aborted,
    /// The response failed; the message holds what had arrived.
    Error,
    /// A reason this version does not know, as the provider wrote it. It ends the turn.
    Other(String),
}

impl StopReason {
    /// Whether the provider goes on with its own message when the same history is sent again.
    #[must_use]
    pub fn is_pause(&self) -> bool {
        matches!(self, Self::PauseTurn | Self::Compaction)
    }

    /// The reason's name as JSON shows it.
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
