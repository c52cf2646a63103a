//! Thinking parameters of requests, in the form of each model family.

use serde::Serialize;
use zk_core::model::{Model, ThinkingLevel, ThinkingRequest, ThinkingSupport};

use crate::encode::effort::Efforts;

/// Value of `thinkingConfig`: a budget or a level, never both.
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

/// A model family, by the prefix of its ids.
struct Family {
    start: &'static str,
    how: ThinkingForm,
}

#[derive(Clone, Copy)]
enum ThinkingForm {
    Not,
    Budget(Range),
    Level,
}

/// Thinking budgets that a family accepts, in tokens.
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

/// Families by prefix; the first row that matches counts. An id that begins with `gemini-` and matches no row
/// is newer than this table and takes levels.
const FAMILIES: &[Family] = &[
    Family { start: "gemini-1", how: ThinkingForm::Not },
    Family { start: "gemini-2.0", how: ThinkingForm::Not },
    Family { start: "gemini-2.5-flash-image", how: ThinkingForm::Not },
    Family { start: "gemini-2.5-flash-lite", how: ThinkingForm::Budget(LITE) },
    Family { start: "gemini-2.5-flash", how: ThinkingForm::Budget(FLASH) },
    Family { start: "gemini-2.5", how: ThinkingForm::Budget(PRO) },
    Family { start: "gemini-robotics-er-1", how: ThinkingForm::Budget(FLASH) },
    Family { start: "gemini-", how: ThinkingForm::Level },
    Family { start: "gemma-4", how: ThinkingForm::Level },
];

/// Minimum number of output tokens that thinking leaves to the answer.
const MIN_ANSWER_TOKENS: i64 = 1024;

fn form_of(id: &str) -> Option<ThinkingForm> {
    FAMILIES.iter().find(|family| id.starts_with(family.start)).map(|family| family.how)
}

/// Whether the model is of Gemini 3 or later, which requires signatures on its calls and accepts images in
/// results.
pub(super) fn is_third_generation(id: &str) -> bool {
    id.starts_with("gemini-") && matches!(form_of(id), Some(ThinkingForm::Level))
}

/// Returns the form of a model's thinking by its id.
pub(super) fn support(id: &str) -> Option<ThinkingSupport> {
    form_of(id).map(|how| match how {
        ThinkingForm::Not => ThinkingSupport::None,
        ThinkingForm::Budget(_) => ThinkingSupport::Budget,
        ThinkingForm::Level => ThinkingSupport::Effort,
    })
}

/// Returns the thinking parameters; `efforts` are the model's known effort levels. For adaptive thinking, the
/// model is told so if its family supports that; otherwise nothing is sent.
pub(super) fn config(
    model: &Model,
    wanted: ThinkingRequest,
    efforts: &Efforts,
    max_tokens: u32,
) -> Option<Config> {
    let is_on = wanted.level != ThinkingLevel::Off;
    match (model.capabilities.thinking, form_of(&model.id)) {
        (ThinkingSupport::None, _) => None,
        (ThinkingSupport::Budget, None | Some(ThinkingForm::Not | ThinkingForm::Level))
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
                Some(ThinkingForm::Budget(range)) => range,
                Some(ThinkingForm::Not | ThinkingForm::Level) | None => PRO,
            };
            Some(Config {
                include_thoughts: is_on,
                thinking_budget: Some(budget(range, wanted, max_tokens)),
                ..Config::default()
            })
        }
        // Thinking of these models cannot be turned off; the lowest level comes nearest.
        (ThinkingSupport::Effort | ThinkingSupport::Adaptive, _) => {
            let word = match efforts.is_unknown() {
                true => common_levels().value(wanted.level).map(str::to_owned),
                false => efforts.value(wanted.level).map(str::to_owned),
            };
            Some(Config { include_thoughts: is_on, thinking_level: word, ..Config::default() })
        }
    }
}

/// Returns the levels that all models with levels support.
fn common_levels() -> Efforts {
    Efforts::of(["low", "medium", "high"].map(|level| (level, None)))
}

/// Returns the budget in tokens; -1 leaves it to the model.
fn budget(range: Range, wanted: ThinkingRequest, max_tokens: u32) -> i64 {
    match (wanted.level, wanted.budget()) {
        (ThinkingLevel::Off, _) if range.can_be_off => 0,
        (ThinkingLevel::Off, _) => range.least,
        (_, None) => -1,
        (_, Some(budget)) => {
            // Thinking counts as output.
            let room = i64::from(max_tokens) - MIN_ANSWER_TOKENS;
            i64::from(budget).min(room).clamp(range.least, range.most)
        }
    }
}
