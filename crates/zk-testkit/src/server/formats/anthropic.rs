//! Anthropic Messages format of a turn.

use serde_json::{Value, json};
use zk_core::model::{CallId, StopReason, Usage};

use super::pieces::{Part, Piece, Pieces, Rendering};
use crate::script::{Step, Turn, parse_args};

pub(crate) fn stream(turn: &Turn, rendering: Rendering<'_>) -> Vec<Piece> {
    let mut out = Pieces::new(rendering.pace);
    let start = json!({"type": "message_start", "message": message_start(rendering)});
    out.event(Part::Start, event(&start));
    let mut index = 0_u32;
    for step in &turn.steps {
        if out.interrupt(step).is_break() {
            return out.all;
        }
        let (opening, deltas) = match step {
            Step::Text(chunks) => (
                json!({"type": "text", "text": ""}),
                chunks.iter().map(|text| json!({"type": "text_delta", "text": text})).collect::<Vec<_>>(),
            ),
            Step::Thinking { chunks, signature } => (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                chunks
                    .iter()
                    .map(|text| json!({"type": "thinking_delta", "thinking": text}))
                    .chain(
                        signature.iter().map(|proof| json!({"type": "signature_delta", "signature": proof})),
                    )
                    .collect(),
            ),
            Step::Redacted(payload) => (json!({"type": "redacted_thinking", "data": payload}), Vec::new()),
            Step::Call { id, name, args } => (
                json!({"type": "tool_use", "id": id_text(id.as_ref()), "name": name, "input": {}}),
                std::iter::once("")
                    .chain(args.iter().map(String::as_str))
                    .map(|text| json!({"type": "input_json_delta", "partial_json": text}))
                    .collect(),
            ),
            Step::Usage(_) | Step::Stop(_) | Step::Delay(_) | Step::Fail(_) | Step::Hang => continue,
        };
        let start = json!({"type": "content_block_start", "index": index, "content_block": opening});
        out.event(Part::Content, event(&start));
        if index == 0 {
            out.event(Part::Content, ping());
        }
        for delta in deltas {
            out.delta(event(&json!({"type": "content_block_delta", "index": index, "delta": delta})));
        }
        out.event(Part::Content, event(&json!({"type": "content_block_stop", "index": index})));
        index += 1;
    }
    let why = turn.stop_reason();
    let (reason, sequence) = stop_reason(&why);
    let mut finish = json!({
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": sequence},
    });
    if let (Some(usage), Some(fields)) = (rendering.usage, finish.as_object_mut()) {
        fields.insert("usage".into(), usage_of(&usage));
    }
    out.event(Part::Finish, event(&finish));
    out.event(Part::Terminal, event(&json!({"type": "message_stop"})));
    out.all
}

pub(crate) fn response_body(turn: &Turn, rendering: Rendering<'_>) -> Value {
    let content: Vec<Value> = turn
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Text(chunks) => Some(json!({"type": "text", "text": chunks.concat()})),
            Step::Thinking { chunks, signature } => {
                Some(json!({"type": "thinking", "thinking": chunks.concat(), "signature": signature}))
            }
            Step::Redacted(payload) => Some(json!({"type": "redacted_thinking", "data": payload})),
            Step::Call { id, name, args } => {
                let (input, _) = parse_args(&args.concat());
                Some(json!({"type": "tool_use", "id": id_text(id.as_ref()), "name": name, "input": input}))
            }
            Step::Usage(_) | Step::Stop(_) | Step::Delay(_) | Step::Fail(_) | Step::Hang => None,
        })
        .collect();
    let why = turn.stop_reason();
    let (reason, sequence) = stop_reason(&why);
    let mut message = message_start(rendering);
    if let Some(fields) = message.as_object_mut() {
        fields.insert("content".into(), content.into());
        fields.insert("stop_reason".into(), reason.into());
        fields.insert("stop_sequence".into(), sequence.into());
    }
    message
}

/// Wire form of an event.
pub(crate) fn event(data: &Value) -> String {
    let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

pub(crate) fn ping() -> String {
    event(&json!({"type": "ping"}))
}

fn message_start(rendering: Rendering<'_>) -> Value {
    let mut head = json!({
        "id": format!("msg_{}", rendering.number),
        "type": "message",
        "role": "assistant",
        "model": rendering.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    });
    if let (Some(usage), Some(fields)) = (rendering.usage, head.as_object_mut()) {
        fields.insert("usage".into(), usage_of(&usage));
    }
    head
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    })
}

fn stop_reason(reason: &StopReason) -> (&str, Option<&str>) {
    match reason {
        StopReason::EndTurn => ("end_turn", None),
        StopReason::ToolUse => ("tool_use", None),
        StopReason::MaxTokens => ("max_tokens", None),
        StopReason::StopSequence(sequence) => ("stop_sequence", sequence.as_deref()),
        StopReason::Refusal(_) => ("refusal", None),
        StopReason::PauseTurn => ("pause_turn", None),
        StopReason::ContextExceeded => ("model_context_window_exceeded", None),
        StopReason::Compaction => ("compaction", None),
        StopReason::Aborted => ("aborted", None),
        StopReason::Error => ("error", None),
        StopReason::Other(raw) => (raw, None),
    }
}

fn id_text(id: Option<&CallId>) -> &str {
    id.map_or("call_0", CallId::as_str)
}
