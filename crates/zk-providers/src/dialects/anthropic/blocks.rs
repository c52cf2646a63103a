//! One block of a response while it arrives.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};
use zk_core::model::{Block, ModelRef, Text, Thinking, WireData};
use zk_core::service::StreamEvent;

use super::stream::Delta;
use crate::encode::args;
use crate::encode::block_label::label;

type Out = VecDeque<StreamEvent>;

/// A block that has begun and not ended.
pub(super) struct Open {
    /// Index of the block in the provider's events.
    pub(super) index: u64,
    pub(super) block: u32,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Text {
        text: String,
        citations: Vec<Value>,
    },
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    ToolCall {
        id: String,
        name: String,
        args: String,
        input: Option<Value>,
        caller: Option<Value>,
    },
    /// A block of a kind that only this API has, as it began, with the text of its input.
    Opaque {
        fields: Map<String, Value>,
        input: String,
    },
    /// An event that begins no block.
    Skipped,
}

impl Open {
    pub(super) fn begin(index: u64, block: u32, start: Value) -> Self {
        let Value::Object(mut fields) = start else { return Self { index, block, kind: Kind::Skipped } };
        let kind = match fields.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => {
                Kind::Text { text: take_text(&mut fields, "text"), citations: take_citations(&mut fields) }
            }
            "thinking" => {
                let signature = take_text(&mut fields, "signature");
                Kind::Thinking { text: take_text(&mut fields, "thinking"), signature }
            }
            "redacted_thinking" => Kind::Redacted(take_text(&mut fields, "data")),
            "tool_use" => Kind::ToolCall {
                id: take_text(&mut fields, "id"),
                name: take_text(&mut fields, "name"),
                args: String::new(),
                input: fields
                    .remove("input")
                    .filter(|input| input.as_object().is_some_and(|input| !input.is_empty())),
                caller: fields.remove("caller").filter(|caller| !caller.is_null()),
            },
            "" => Kind::Skipped,
            _ => Kind::Opaque { fields, input: String::new() },
        };
        Self { index, block, kind }
    }

    /// Emits the events for content at the beginning of the block.
    pub(super) fn announce(&self, out: &mut Out) {
        let block = self.block;
        match &self.kind {
            Kind::Text { text, .. } if !text.is_empty() => {
                out.push_back(StreamEvent::Text { block, delta: text.clone() });
            }
            Kind::Thinking { text, .. } if !text.is_empty() => {
                out.push_back(StreamEvent::Thinking { block, delta: text.clone() });
            }
            Kind::ToolCall { id, name, .. } => {
                out.push_back(StreamEvent::ToolCall { block, id: id.as_str().into(), name: name.clone() });
            }
            Kind::Text { .. }
            | Kind::Thinking { .. }
            | Kind::Redacted(_)
            | Kind::Opaque { .. }
            | Kind::Skipped => {}
        }
    }

    /// Adds a delta to the block.
    pub(super) fn add_delta(&mut self, delta: Delta<'_>, out: &mut Out) {
        let block = self.block;
        match &mut self.kind {
            Kind::Text { text: whole, citations } => {
                if let Some(text) = delta.text.filter(|text| !text.is_empty()) {
                    whole.push_str(&text);
                    out.push_back(StreamEvent::Text { block, delta: text.into_string() });
                }
                citations.extend(delta.citation.map(sendable_citation));
            }
            Kind::Thinking { text: whole, signature } => {
                if let Some(text) = delta.thinking.filter(|text| !text.is_empty()) {
                    whole.push_str(&text);
                    out.push_back(StreamEvent::Thinking { block, delta: text.into_string() });
                }
                if let Some(more) = delta.signature {
                    signature.push_str(&more);
                }
            }
            Kind::ToolCall { args, .. } => {
                if let Some(json) = delta.partial_json.filter(|json| !json.is_empty()) {
                    args.push_str(&json);
                    out.push_back(StreamEvent::ToolArgs { block, delta: json.into_string() });
                }
            }
            Kind::Redacted(_) | Kind::Opaque { .. } | Kind::Skipped => {}
        }
    }

    /// Merges a delta into a block of a kind that only this API has. Returns whether the block was one.
    pub(super) fn take_opaque(&mut self, delta: &mut Value) -> bool {
        let Kind::Opaque { fields, input } = &mut self.kind else { return false };
        for (name, value) in delta.as_object_mut().into_iter().flatten() {
            match (name.as_str(), fields.get_mut(name), value.take()) {
                ("type", ..) => {}
                ("partial_json", _, Value::String(more)) => input.push_str(&more),
                (_, Some(Value::String(whole)), Value::String(more)) => whole.push_str(&more),
                (_, Some(Value::Array(whole)), Value::Array(more)) => whole.extend(more),
                (_, _, value) => {
                    fields.insert(name.clone(), value);
                }
            }
        }
        true
    }

    /// Ends the block and returns it; `None` if it is empty, or if it was cut off (`cut`) and is useless
    /// then.
    pub(super) fn close(self, cut: bool, origin: &ModelRef) -> Option<Block> {
        let wire = |data| Some(WireData { origin: origin.clone(), data });
        let thinking = Thinking { origin: Some(origin.clone()), ..Thinking::default() };
        Some(match self.kind {
            Kind::Skipped => return None,
            Kind::Text { text, .. } if text.is_empty() => return None,
            Kind::Text { text, citations } => {
                let wire = if citations.is_empty() { None } else { wire(json!({ "citations": citations })) };
                Block::Text(Text { text, wire })
            }
            Kind::Thinking { text, signature } => {
                let signature = Some(signature).filter(|signature| !signature.is_empty());
                Block::Thinking(Thinking { text, signature, ..thinking })
            }
            Kind::Redacted(data) => Block::Thinking(Thinking { redacted: Some(data), ..thinking }),
            Kind::ToolCall { id, name, args, input, caller } => {
                let complete = input.filter(|_| args.is_empty());
                let mut call = args::tool_call(id, name, &args, cut && complete.is_none());
                if let Some(input) = complete {
                    call.args = input;
                }
                if cut {
                    // A call that the provider did not finish is never executed, even if it looks complete.
                    let arrived = if args.is_empty() { call.args.to_string() } else { args };
                    call.malformed = call.malformed.or(Some(arrived));
                }
                call.wire = caller.and_then(|caller| wire(json!({ "caller": caller })));
                Block::ToolCall(call)
            }
            Kind::Opaque { .. } if cut => return None,
            Kind::Opaque { mut fields, input } => {
                if !input.trim().is_empty() {
                    fields.insert("input".into(), args::parse(&input)?.into());
                }
                Block::provider(describe_block(&fields), origin, Value::Object(fields))
            }
        })
    }
}

fn take_text(fields: &mut Map<String, Value>, name: &str) -> String {
    match fields.remove(name) {
        Some(Value::String(text)) => text,
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) | None => {
            String::new()
        }
    }
}

fn take_citations(fields: &mut Map<String, Value>) -> Vec<Value> {
    match fields.remove("citations") {
        Some(Value::Array(citations)) => citations.into_iter().map(sendable_citation).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_))
        | None => Vec::new(),
    }
}

/// Converts a citation for sending it back: the API adds a file name that it does not accept.
fn sendable_citation(mut citation: Value) -> Value {
    if let Some(fields) = citation.as_object_mut() {
        fields.remove("file_id");
    }
    citation
}

/// Describes a block to people in a few words.
pub(crate) fn describe_block(fields: &Map<String, Value>) -> String {
    let of = |name: &str| fields.get(name).and_then(Value::as_str);
    let kind = of("type").unwrap_or_default();
    let content = fields.get("content");
    let error = content.and_then(|content| content.get("error_code"));
    match (kind, of("name")) {
        ("compaction", _) => "the provider compacted the context".to_owned(),
        ("fallback", _) => {
            let model = |name: &str| fields.get(name)?.get("model")?.as_str();
            format!("{} answers instead of {}", model("to").unwrap_or("?"), model("from").unwrap_or("?"))
        }
        (_, Some(name)) => label(name, fields.get("input").unwrap_or(&Value::Null)),
        (kind, None) => label(kind, error.unwrap_or(&Value::Null)),
    }
}
