//! The request field that turns thinking on, with its level.

use zk_core::model::{ThinkingLevel, ThinkingRequest, ThinkingSupport};

/// Value of the `think` field: yes, no, or a level.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub(super) enum Think {
    Switch(bool),
    Word(&'static str),
}

/// Returns the value to send; `None` for a model that cannot think, or that decides itself.
pub(super) fn think(support: ThinkingSupport, wanted: ThinkingRequest) -> Option<Think> {
    match (support, wanted.level) {
        (_, ThinkingLevel::Adaptive) => None,
        // Thinking of these models cannot be turned off; the lowest level comes nearest.
        (ThinkingSupport::Effort, ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low) => {
            Some(Think::Word("low"))
        }
        (ThinkingSupport::Effort, ThinkingLevel::Medium) => Some(Think::Word("medium")),
        (ThinkingSupport::Effort, ThinkingLevel::High | ThinkingLevel::XHigh | ThinkingLevel::Max) => {
            Some(Think::Word("high"))
        }
        // Sent even for unknown models, since some think unless told otherwise.
        (_, ThinkingLevel::Off) => Some(Think::Switch(false)),
        (ThinkingSupport::Budget | ThinkingSupport::Adaptive, _) => Some(Think::Switch(true)),
        (ThinkingSupport::None, _) => None,
    }
}
