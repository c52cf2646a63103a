//! Requests for thinking, in the form that each family of models takes.

use serde::Serialize;
use zk_core::model::{Model, ThinkingLevel, ThinkingRequest, ThinkingSupport};

use crate::encode::effort::Efforts;

/// The `thinkingConfig` of a request: a budget or a level, never both.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Config {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<String>,
}

/// One family: the models whose ids begin with `start`.
struct Family {
    start: &'static str,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    Not,
    Budget(Range),
    Level,
}

/// The budgets a family takes.
#[derive(Clone, Copy)]
struct Range {
    least: i64,
    most: i64,
    /// Whether a budget of zero turns thinking off.
    can_be_off: bool,
}

const FLASH: Range = Range { least: 1, most: 24_576, can_be_off: true };
const LITE: Range = Range { least: 512, most: 24_576, can_be_off: true };
const PRO: Range = Range { least: 128, most: 32_768, can_be_off: false };

/// The first row that fits counts. Whatever begins with `gemini-` and stands in no row is newer than this
/// table, and thinks by levels.
const FAMILIES: &[Family] = &[
    Family { start: "gemini-1", how: How::Not },
    Family { start: "gemini-2.0", how: How::Not },
    Family { start: "gemini-2.5-flash-image", how: How::Not },
    Family { start: "gemini-2.5-flash-lite", how: How::Budget(LITE) },
    Family { start: "gemini-2.5-flash", how: How::Budget(FLASH) },
    Family { start: "gemini-2.5", how: How::Budget(PRO) },
    Family { start: "gemini-robotics-er-1", how: How::Budget(FLASH) },
    Family { start: "gemini-", how: How::Level },
    Family { start: "gemma-4", how: How::Level },
];

/// The least of an output that is left for the answer.
const ANSWER: i64 = 1024;

fn how(id: &str) -> Option<How> {
    FAMILIES.iter().find(|family| id.starts_with(family.start)).map(|family| family.how)
}

/// Whether a model wants the signatures of its calls back, and takes images inside results: Gemini 3 and later.
pub(super) fn is_third_generation(id: &str) -> bool {
    id.starts_with("gemini-") && matches!(how(id), Some(How::Level))
}

/// Returns a model's kind of thinking by its id.
pub(super) fn support(id: &str) -> Option<ThinkingSupport> {
    how(id).map(|how| match how {
        How::Not => ThinkingSupport::None,
        How::Budget(_) => ThinkingSupport::Budget,
        How::Level => ThinkingSupport::Effort,
    })
}

/// Returns the settings to send; `efforts` are the levels the model is known to have. A model that is to
/// decide itself is asked so where its family can, and asked nothing where it is known only on or off.
pub(super) fn config(
    model: &Model,
    wanted: ThinkingRequest,
    efforts: &Efforts,
    max_tokens: u32,
) -> Option<Config> {
    let is_on = wanted.level != ThinkingLevel::Off;
    match (model.capabilities.thinking, how(&model.id)) {
        (ThinkingSupport::None, _) => None,
        (ThinkingSupport::Budget, None | Some(How::Not | How::Level))
            if wanted.level == ThinkingLevel::Adaptive =>
        {
            None
        }
        (ThinkingSupport::Effort | ThinkingSupport::Adaptive, _)
            if wanted.level == ThinkingLevel::Adaptive && !efforts.is_unknown() && !efforts.has_steps() =>
        {
            None
        }
        (ThinkingSupport::Budget, by_name) => {
            let range = match by_name {
                Some(How::Budget(range)) => range,
                Some(How::Not | How::Level) | None => PRO,
            };
            Some(Config {
                include_thoughts: is_on,
                thinking_budget: Some(budget(range, wanted, max_tokens)),
                ..Config::default()
            })
        }
        // These models always think; the lowest level is the nearest to not at all.
        (ThinkingSupport::Effort | ThinkingSupport::Adaptive, _) => {
            let word = match efforts.is_unknown() {
                true => everybody().value(wanted.level).map(str::to_owned),
                false => efforts.value(wanted.level).map(str::to_owned),
            };
            Some(Config { include_thoughts: is_on, thinking_level: word, ..Config::default() })
        }
    }
}

/// The levels every model has that thinks by levels.
fn everybody() -> Efforts {
    Efforts::of(["low", "medium", "high"].map(|level| (level, None)))
}

/// The budget in tokens; -1 leaves it to the model.
fn budget(range: Range, wanted: ThinkingRequest, max_tokens: u32) -> i64 {
    match (wanted.level, wanted.budget()) {
        (ThinkingLevel::Off, _) if range.can_be_off => 0,
        (ThinkingLevel::Off, _) => range.least,
        (_, None) => -1,
        (_, Some(budget)) => {
            // Thoughts count as output.
            let room = i64::from(max_tokens) - ANSWER;
            i64::from(budget).min(room).clamp(range.least, range.most)
        }
    }
}
