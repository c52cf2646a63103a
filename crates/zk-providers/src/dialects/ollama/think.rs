//! Field of a request that says whether to think, and how much.

use zk_core::model::{ThinkingLevel, ThinkingRequest, ThinkingSupport};

/// The `think` field: yes, no, or a word.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub(super) enum Think {
    Switch(bool),
    Word(&'static str),
}

/// Returns the field to send; nothing where a model that cannot think is asked to, or where the model is to
/// decide itself.
pub(super) fn think(support: ThinkingSupport, wanted: ThinkingRequest) -> Option<Think> {
    match (support, wanted.level) {
        (_, ThinkingLevel::Adaptive) => None,
        // These models always think; little is the nearest to not at all.
        (ThinkingSupport::Effort, ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low) => {
            Some(Think::Word("low"))
        }
        (ThinkingSupport::Effort, ThinkingLevel::Medium) => Some(Think::Word("medium")),
        (ThinkingSupport::Effort, ThinkingLevel::High | ThinkingLevel::XHigh | ThinkingLevel::Max) => {
            Some(Think::Word("high"))
        }
        // Said even to models of which nothing is known: some think unless they are told not to.
        (_, ThinkingLevel::Off) => Some(Think::Switch(false)),
        (ThinkingSupport::Budget | ThinkingSupport::Adaptive, _) => Some(Think::Switch(true)),
        (ThinkingSupport::None, _) => None,
    }
}
