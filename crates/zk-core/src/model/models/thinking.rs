use std::str::FromStr;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Amount of reasoning that a request asks for. A level that the model lacks is clamped to the nearest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// No reasoning.
    #[default]
    Off,
    /// About 1,024 tokens.
    Minimal,
    /// About 4,096 tokens.
    Low,
    /// About 10,240 tokens.
    Medium,
    /// About 32,768 tokens.
    High,
    /// As `High`, and more if the model has a higher level.
    XHigh,
    /// As much as the model supports.
    Max,
    /// The model decides. No reasoning on models without adaptive reasoning.
    Adaptive,
}

impl ThinkingLevel {
    /// All levels, from the lowest.
    pub const ALL: [Self; 8] = [
        Self::Off,
        Self::Minimal,
        Self::Low,
        Self::Medium,
        Self::High,
        Self::XHigh,
        Self::Max,
        Self::Adaptive,
    ];

    /// Returns the token budget, for models that take one.
    #[must_use]
    pub fn budget(self) -> Option<u32> {
        match self {
            Self::Off | Self::Adaptive => None,
            Self::Minimal => Some(1024),
            Self::Low => Some(4096),
            Self::Medium => Some(10_240),
            Self::High | Self::XHigh | Self::Max => Some(32_768),
        }
    }

    /// Returns the level's name in settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
            Self::Adaptive => "adaptive",
        }
    }
}

impl FromStr for ThinkingLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|level| level.as_str() == text).ok_or_else(|| {
            format!(
                "unknown thinking level `{text}`: use off, minimal, low, medium, high, xhigh, max or adaptive"
            )
        })
    }
}

/// Reasoning that one request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ThinkingRequest {
    /// Amount of reasoning.
    pub level: ThinkingLevel,
    /// Exact token budget, which overrides that of the level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u32>,
}

impl ThinkingRequest {
    /// Returns the token budget, for models that take one; `None` if reasoning is off or left to the model.
    #[must_use]
    pub fn budget(self) -> Option<u32> {
        match self.level {
            ThinkingLevel::Off => None,
            ThinkingLevel::Adaptive
            | ThinkingLevel::Minimal
            | ThinkingLevel::Low
            | ThinkingLevel::Medium
            | ThinkingLevel::High
            | ThinkingLevel::XHigh
            | ThinkingLevel::Max => self.budget.or(self.level.budget()),
        }
    }
}
