//! Normalises single blocks, each independently of its neighbours.

use serde_json::{Map, Value, json};

use super::{IMAGE_OMITTED, MADE_IMAGE_OMITTED, MALFORMED_KEY, NO_OUTPUT, ThinkingReplay, WireRules, media};
use crate::model::{
    Block, Compaction, Image, ProviderBlock, StopReason, Text, Thinking, ToolCall, ToolContent, ToolResult,
    WireData,
};

pub(super) enum Fate {
    Keep,
    Drop,
    Become(Block),
}

pub(super) fn normalise_assistant_block(block: &Block, stop: Option<&StopReason>, rules: &WireRules) -> Fate {
    match block {
        Block::Text(text) => normalise_text(text, rules),
        Block::Thinking(thinking) => normalise_thinking(thinking, stop, rules),
        Block::ToolCall(call) => normalise_call(call, stop, rules),
        Block::Provider(block) => normalise_provider_block(block, stop, rules),
        Block::Compaction(compaction) => Fate::Become(compaction_text(compaction)),
        Block::Image(image) => normalise_made_image(image, block, rules),
        Block::Document(_) => Fate::Become(Block::text(IMAGE_OMITTED)),
        Block::ToolResult(_) => Fate::Drop,
    }
}

pub(super) fn normalise_user_block(block: &Block, rules: &WireRules) -> Fate {
    match block {
        Block::Text(text) => normalise_text(text, rules),
        Block::Compaction(compaction) => Fate::Become(compaction_text(compaction)),
        Block::Image(_) | Block::Document(_) => {
            media::placeholder_for(block, rules).map_or(Fate::Keep, |text| Fate::Become(Block::text(text)))
        }
        Block::ToolResult(result) => normalise_result(result),
        Block::ToolCall(_) | Block::Thinking(_) | Block::Provider(_) => Fate::Drop,
    }
}

/// Normalises an image that a model made.
fn normalise_made_image(image: &Image, block: &Block, rules: &WireRules) -> Fate {
    if !rules.image_in_answer {
        return Fate::Become(Block::text(MADE_IMAGE_OMITTED));
    }
    match media::placeholder_for(block, rules) {
        Some(text) => Fate::Become(Block::text(text)),
        None if is_foreign(image.wire.as_ref(), rules) => {
            Fate::Become(Block::Image(Image { wire: None, ..image.clone() }))
        }
        None => Fate::Keep,
    }
}

fn normalise_text(text: &Text, rules: &WireRules) -> Fate {
    if text.text.trim().is_empty() {
        return Fate::Drop;
    }
    let foreign = is_foreign(text.wire.as_ref(), rules);
    match without_nul(&text.text) {
        None if !foreign => Fate::Keep,
        cleaned => Fate::Become(Block::Text(Text {
            text: cleaned.unwrap_or_else(|| text.text.clone()),
            wire: text.wire.clone().filter(|_| !foreign),
        })),
    }
}

fn normalise_thinking(thinking: &Thinking, stop: Option<&StopReason>, rules: &WireRules) -> Fate {
    let same_model = thinking.origin.as_ref() == Some(&rules.target);
    // A block that was cut off has no signature, and sending it back unsigned would change it.
    let whole = !is_interrupted(stop);
    let replayed = match rules.thinking {
        ThinkingReplay::Never => false,
        ThinkingReplay::Signed => thinking.signature.is_some() || thinking.redacted.is_some(),
        ThinkingReplay::Echo => whole || thinking.signature.is_some(),
    };
    if same_model && replayed { Fate::Keep } else { Fate::Drop }
}

/// Normalises a block that only its provider understands. The call of a tool that the provider runs itself is
/// legal only together with its result, and an interrupted response may contain only the call.
fn normalise_provider_block(block: &ProviderBlock, stop: Option<&StopReason>, rules: &WireRules) -> Fate {
    if !is_interrupted(stop) && !is_foreign(Some(&block.wire), rules) { Fate::Keep } else { Fate::Drop }
}

fn is_interrupted(stop: Option<&StopReason>) -> bool {
    matches!(stop, Some(StopReason::Aborted))
}

fn normalise_call(call: &ToolCall, stop: Option<&StopReason>, rules: &WireRules) -> Fate {
    // Wire data of a call in an interrupted response refers to a block that is not sent.
    let foreign = is_foreign(call.wire.as_ref(), rules) || (is_interrupted(stop) && call.wire.is_some());
    let args = match (&call.malformed, &call.args) {
        (Some(raw), _) => Some(json!({ MALFORMED_KEY: raw.replace('\0', "\u{fffd}") })),
        (None, Value::Object(args)) => args_without_nul(args),
        (None, other) => Some(json!({ MALFORMED_KEY: other.to_string() })),
    };
    if args.is_none() && !foreign {
        return Fate::Keep;
    }
    Fate::Become(Block::ToolCall(ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        args: args.unwrap_or_else(|| call.args.clone()),
        malformed: None,
        wire: call.wire.clone().filter(|_| !foreign),
    }))
}

/// Normalises the text of a tool result; [`media::split`] handles its images and documents.
fn normalise_result(result: &ToolResult) -> Fate {
    let content = match &result.content {
        ToolContent::Text(text) if text.trim().is_empty() => Some(NO_OUTPUT.into()),
        ToolContent::Text(text) => without_nul(text).map(ToolContent::Text),
        ToolContent::Blocks(blocks) => {
            let legal = |block: &Block| match block {
                Block::Text(text) => {
                    !text.text.trim().is_empty() && !has_nul(&text.text) && text.wire.is_none()
                }
                Block::Image(_) | Block::Document(_) => true,
                Block::ToolCall(_)
                | Block::ToolResult(_)
                | Block::Thinking(_)
                | Block::Compaction(_)
                | Block::Provider(_) => false,
            };
            (blocks.is_empty() || !blocks.iter().all(legal)).then(|| {
                let kept: Vec<Block> = blocks
                    .iter()
                    .filter_map(|block| match block {
                        Block::Text(text) if text.text.trim().is_empty() => None,
                        Block::Text(text) => {
                            Some(Block::text(without_nul(&text.text).unwrap_or_else(|| text.text.clone())))
                        }
                        Block::Image(_) | Block::Document(_) => Some(block.clone()),
                        Block::ToolCall(_)
                        | Block::ToolResult(_)
                        | Block::Thinking(_)
                        | Block::Compaction(_)
                        | Block::Provider(_) => None,
                    })
                    .collect();
                if kept.is_empty() { NO_OUTPUT.into() } else { ToolContent::Blocks(kept) }
            })
        }
    };
    match content {
        None => Fate::Keep,
        Some(content) => Fate::Become(Block::ToolResult(ToolResult { content, ..result.clone() })),
    }
}

fn compaction_text(compaction: &Compaction) -> Block {
    Block::text(format!(
        "[Summary of the earlier conversation, for reference; it is history, not a request]\n{}",
        compaction.summary.replace('\0', "\u{fffd}")
    ))
}

fn is_foreign(wire: Option<&WireData>, rules: &WireRules) -> bool {
    wire.is_some_and(|wire| wire.origin != rules.target)
}

/// Whether a text has a NUL character. Called for the whole history of each request.
fn has_nul(text: &str) -> bool {
    memchr::memchr(0, text.as_bytes()).is_some()
}

/// Returns the text without NUL characters, which some back ends reject; `None` if it has none.
fn without_nul(text: &str) -> Option<String> {
    has_nul(text).then(|| text.replace('\0', "\u{fffd}"))
}

fn args_without_nul(args: &Map<String, Value>) -> Option<Value> {
    fn is_affected(value: &Value) -> bool {
        match value {
            Value::String(text) => has_nul(text),
            Value::Array(items) => items.iter().any(is_affected),
            Value::Object(fields) => fields.iter().any(|(key, value)| has_nul(key) || is_affected(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    fn strip_nul(value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(text.replace('\0', "\u{fffd}")),
            Value::Array(items) => items.iter().map(strip_nul).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (key.replace('\0', "\u{fffd}"), strip_nul(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
    let found = args.iter().any(|(key, value)| has_nul(key) || is_affected(value));
    found.then(|| args.iter().map(|(key, value)| (key.replace('\0', "\u{fffd}"), strip_nul(value))).collect())
}
