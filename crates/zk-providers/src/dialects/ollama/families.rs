//! What is known of a model by its name, until the server is asked.

use zk_core::model::{ThinkingLevel, ThinkingRequest, ThinkingSupport};

/// Families whose models think. `Budget` stands for those that only know yes and no.
const FAMILIES: &[(&str, ThinkingSupport)] = &[
    ("gpt-oss", ThinkingSupport::Effort),
    ("qwen3-coder", ThinkingSupport::None),
    ("qwen3-embedding", ThinkingSupport::None),
    ("qwen3", ThinkingSupport::Budget),
    ("deepseek-r1", ThinkingSupport::Budget),
    ("deepseek-v3.1", ThinkingSupport::Budget),
    ("deepseek-v4", ThinkingSupport::Budget),
    ("magistral", ThinkingSupport::Budget),
    ("glm-4", ThinkingSupport::Budget),
    ("minimax-m2", ThinkingSupport::Budget),
    ("kimi-k2-thinking", ThinkingSupport::Budget),
];

/// How a model thinks, by its name: `library/qwen3:4b` is a `qwen3`.
pub(super) fn thinking(id: &str) -> ThinkingSupport {
    let name = id.rsplit('/').next().unwrap_or(id);
    FAMILIES
        .iter()
        .find(|(start, _)| name.starts_with(start))
        .map_or(ThinkingSupport::None, |(_, support)| *support)
}

/// The `think` field: yes, no, or a word.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub(super) enum Think {
    Switch(bool),
    Word(&'static str),
}

/// What to send; nothing where a model that cannot think is asked to, or where the model is to decide itself.
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
