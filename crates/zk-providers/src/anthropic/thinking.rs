//! How each generation of models is asked to think.

use serde::Serialize;
use zk_core::model::{Block, Message, Model, Role, ThinkingLevel, ThinkingRequest, ThinkingSupport};

/// The `thinking` and `output_config` fields of a request.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Ask {
    pub(super) thinking: Option<Field>,
    pub(super) effort: Option<&'static str>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Field {
    Enabled { budget_tokens: u32 },
    Adaptive { display: &'static str },
    Disabled,
}

/// One generation: the models whose ids begin with one of `ids`.
struct Generation {
    ids: &'static [&'static str],
    how: How,
    /// What turns thinking off: the field, or nothing that can.
    can_be_off: bool,
    /// The words for extra and for most effort, where the generation has them.
    xhigh: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    Not,
    Budget,
    Adaptive,
}

/// The first row that fits counts. Ids that begin with `claude-` and stand in no row are newer than this table.
const GENERATIONS: &[Generation] = &[
    Generation {
        ids: &[
            "claude-2",
            "claude-instant",
            "claude-3-5-",
            "claude-3-opus",
            "claude-3-sonnet",
            "claude-3-haiku",
        ],
        how: How::Not,
        can_be_off: true,
        xhigh: "high",
    },
    Generation {
        ids: &[
            "claude-3-7-",
            "claude-haiku-4",
            "claude-sonnet-4-5",
            "claude-opus-4-5",
            "claude-opus-4-1",
            "claude-opus-4-0",
            "claude-sonnet-4-0",
            "claude-opus-4-2",
            "claude-sonnet-4-2",
        ],
        how: How::Budget,
        can_be_off: true,
        xhigh: "high",
    },
    Generation {
        ids: &["claude-opus-4-6", "claude-sonnet-4-6"],
        how: How::Adaptive,
        can_be_off: true,
        xhigh: "max",
    },
    Generation {
        ids: &["claude-fable", "claude-mythos", "claude-opus-5-5", "claude-sonnet-5-5"],
        how: How::Adaptive,
        can_be_off: false,
        xhigh: "xhigh",
    },
    Generation { ids: &["claude-"], how: How::Adaptive, can_be_off: true, xhigh: "xhigh" },
];

/// The least budget the API takes.
const LEAST: u32 = 1024;

fn generation(id: &str) -> Option<&'static Generation> {
    // Gateways put a vendor before the name: `anthropic/claude-…`, `us.anthropic.claude-…`.
    let at = id.find("claude-")?;
    let id = id.get(at..)?;
    GENERATIONS.iter().find(|row| row.ids.iter().any(|start| id.starts_with(start)))
}

/// How a model thinks, by its id.
pub(super) fn support(id: &str) -> ThinkingSupport {
    match generation(id).map(|row| row.how) {
        Some(How::Budget) => ThinkingSupport::Budget,
        Some(How::Adaptive) => ThinkingSupport::Adaptive,
        Some(How::Not) | None => ThinkingSupport::None,
    }
}

/// What to send. `forced` says that the model has to call a tool.
pub(super) fn ask(
    model: &Model,
    wanted: ThinkingRequest,
    max_tokens: u32,
    forced: bool,
    history: &[std::sync::Arc<Message>],
) -> Ask {
    let Some(generation) = generation(&model.id) else {
        return of_unknown(model, wanted, max_tokens, forced, history);
    };
    match generation.how {
        How::Not => Ask::default(),
        How::Budget => budget(wanted, max_tokens, forced, history),
        How::Adaptive => adaptive(generation, wanted),
    }
}

/// A model of another vendor behind this protocol: what its description says.
fn of_unknown(
    model: &Model,
    wanted: ThinkingRequest,
    max_tokens: u32,
    forced: bool,
    history: &[std::sync::Arc<Message>],
) -> Ask {
    match model.capabilities.thinking {
        ThinkingSupport::None => Ask::default(),
        ThinkingSupport::Budget => budget(wanted, max_tokens, forced, history),
        ThinkingSupport::Effort | ThinkingSupport::Adaptive => {
            GENERATIONS.last().map_or_else(Ask::default, |newest| adaptive(newest, wanted))
        }
    }
}

fn adaptive(generation: &Generation, wanted: ThinkingRequest) -> Ask {
    // Newer models keep their thoughts to themselves unless asked.
    let on = |effort| Ask { thinking: Some(Field::Adaptive { display: "summarized" }), effort };
    match wanted.level {
        ThinkingLevel::Off if generation.can_be_off => Ask { thinking: Some(Field::Disabled), effort: None },
        // Such a model always thinks; little is the nearest to not at all.
        ThinkingLevel::Off => Ask { thinking: None, effort: Some("low") },
        ThinkingLevel::Adaptive => on(None),
        ThinkingLevel::Minimal | ThinkingLevel::Low => on(Some("low")),
        ThinkingLevel::Medium => on(Some("medium")),
        ThinkingLevel::High => on(Some("high")),
        ThinkingLevel::XHigh => on(Some(generation.xhigh)),
    }
}

fn budget(
    wanted: ThinkingRequest,
    max_tokens: u32,
    forced: bool,
    history: &[std::sync::Arc<Message>],
) -> Ask {
    // A forced call and a call without the thinking before it are errors while thinking is on.
    if forced || is_amid_unthought_calls(history) {
        return Ask::default();
    }
    let room = max_tokens.saturating_sub(LEAST);
    let thinking = wanted
        .budget()
        .map(|budget| budget.max(LEAST).min(room))
        .filter(|budget| *budget >= LEAST)
        .map(|budget_tokens| Field::Enabled { budget_tokens });
    Ask { thinking, effort: None }
}

/// Whether the last response called tools without thinking first, and is being answered now.
fn is_amid_unthought_calls(history: &[std::sync::Arc<Message>]) -> bool {
    let last = history.iter().rev().find(|message| message.role == Role::Assistant);
    last.is_some_and(|message| {
        message.calls().next().is_some() && !matches!(message.content.first(), Some(Block::Thinking(_)))
    })
}
