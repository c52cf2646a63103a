//! Thinking parameters of requests, in the form of each model generation.

use serde::Serialize;
use zk_core::model::{Block, Message, Role, ThinkingLevel, ThinkingRequest, ThinkingSupport};
use zk_core::service::Request;

use super::request::max_tokens;
use crate::catalogue::thinking::{GENERATIONS, generation};
use crate::encode::effort::Efforts;

/// Values of the fields `thinking` and `output_config`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ThinkingParams {
    pub(super) thinking: Option<Field>,
    pub(super) effort: Option<String>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Field {
    Enabled { budget_tokens: u32 },
    Adaptive { display: &'static str },
    Disabled,
}

/// Smallest thinking budget that the API accepts, in tokens.
const MIN_BUDGET_TOKENS: u32 = 1024;

/// Whether the model needs a beta feature to think between its calls.
pub(super) fn interleaves(params: &ThinkingParams, request: &Request) -> bool {
    let is_budget = matches!(params.thinking, Some(Field::Enabled { .. }));
    is_budget && !request.tools.is_empty() && generation(&request.model.id).is_some()
}

/// Returns the form of a model's thinking by its id.
pub(super) fn support(id: &str) -> Option<ThinkingSupport> {
    generation(id).map(|row| row.how)
}

/// Returns the parameters to send. `efforts` are the model's known effort levels; `forced` says that a tool
/// call is forced.
pub(super) fn params(request: &Request, efforts: &Efforts, forced: bool) -> ThinkingParams {
    let (model, wanted) = (&request.model, request.thinking);
    match model.capabilities.thinking {
        ThinkingSupport::None => ThinkingParams::default(),
        ThinkingSupport::Budget => budget(wanted, max_tokens(request), forced, request.history.messages()),
        ThinkingSupport::Effort | ThinkingSupport::Adaptive if efforts.is_unknown() => {
            let newest = || GENERATIONS.last();
            let generation = generation(&model.id).or_else(newest);
            adaptive(&generation.map(|row| row.efforts()).unwrap_or_default(), wanted)
        }
        ThinkingSupport::Effort | ThinkingSupport::Adaptive => adaptive(efforts, wanted),
    }
}

fn adaptive(efforts: &Efforts, wanted: ThinkingRequest) -> ThinkingParams {
    let effort = efforts.value(wanted.level).map(str::to_owned);
    match wanted.level {
        ThinkingLevel::Off if efforts.can_be_off() => {
            ThinkingParams { thinking: Some(Field::Disabled), effort: None }
        }
        // A model whose thinking cannot be turned off gets the lowest level. Newer models hide their thinking
        // unless asked.
        ThinkingLevel::Off
        | ThinkingLevel::Adaptive
        | ThinkingLevel::Minimal
        | ThinkingLevel::Low
        | ThinkingLevel::Medium
        | ThinkingLevel::High
        | ThinkingLevel::XHigh
        | ThinkingLevel::Max => {
            ThinkingParams { thinking: Some(Field::Adaptive { display: "summarized" }), effort }
        }
    }
}

fn budget(
    wanted: ThinkingRequest,
    max_tokens: u32,
    forced: bool,
    history: &[std::sync::Arc<Message>],
) -> ThinkingParams {
    // With thinking on, a forced call is an error, and so is a call without thinking before it.
    if forced || is_amid_unthought_calls(history) {
        return ThinkingParams::default();
    }
    let room = max_tokens.saturating_sub(MIN_BUDGET_TOKENS);
    let thinking = wanted
        .budget()
        .map(|budget| budget.max(MIN_BUDGET_TOKENS).min(room))
        .filter(|budget| *budget >= MIN_BUDGET_TOKENS)
        .map(|budget_tokens| Field::Enabled { budget_tokens });
    ThinkingParams { thinking, effort: None }
}

/// Whether the last response called tools without thinking, and their results are sent now.
fn is_amid_unthought_calls(history: &[std::sync::Arc<Message>]) -> bool {
    let last = history.iter().rev().find(|message| message.role == Role::Assistant);
    last.is_some_and(|message| {
        message.calls().next().is_some() && !matches!(message.content.first(), Some(Block::Thinking(_)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::models::{find, known_models};

    #[test]
    fn a_generation_says_of_its_models_what_the_table_says() {
        for id in known_models("anthropic") {
            let row = find(Some("anthropic"), id).unwrap();
            let generation = generation(id).unwrap();
            assert_eq!(row.clone().model("anthropic", id).capabilities.thinking, generation.how, "{id}");
            let efforts = row.efforts();
            if generation.how == ThinkingSupport::Adaptive {
                for level in ThinkingLevel::ALL {
                    let wanted = ThinkingRequest { level, budget: None };
                    let by_name = adaptive(&generation.efforts(), wanted);
                    assert_eq!(adaptive(&efforts, wanted), by_name, "{id} {level:?}");
                }
            } else {
                assert!(efforts.is_unknown(), "{id}");
            }
        }
    }
}
