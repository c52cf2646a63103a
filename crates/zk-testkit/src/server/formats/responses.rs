//! OpenAI Responses format of a turn, and its variant of the Codex back end.

use serde_json::{Map, Value, json};
use zk_core::model::{CallId, StopReason, Usage};

use super::pieces::{Part, Piece, Pieces, Rendering};
use crate::script::{Step, Turn};

/// Constant timestamp, so that responses are deterministic.
const CREATED: u64 = 1_767_225_600;

/// Builder of the stream.
struct Writer {
    out: Pieces,
    sequence: u64,
}

impl Writer {
    fn event(&mut self, part: Part, mut data: Value) {
        if let Some(fields) = data.as_object_mut() {
            fields.insert("sequence_number".into(), self.sequence.into());
        }
        self.sequence += 1;
        let text = event(&data);
        if part == Part::Delta { self.out.delta(text) } else { self.out.event(part, text) }
    }
}

/// Stream of a turn. With `is_codex`, the last event does not repeat the items.
pub(crate) fn stream(turn: &Turn, rendering: Rendering<'_>, is_codex: bool) -> Vec<Piece> {
    let mut writer = Writer { out: Pieces::new(rendering.pace), sequence: 0 };
    for kind in ["response.created", "response.in_progress"] {
        let response = response(rendering, "in_progress", &[]);
        writer.event(Part::Start, json!({"type": kind, "response": response}));
    }
    let why = turn.stop_reason();
    let mut items = items(turn, rendering).into_iter();
    let mut index = 0_u64;
    for step in &turn.steps {
        if writer.out.interrupt(step).is_break() {
            return writer.out.all;
        }
        match step {
            Step::Usage(_) | Step::Stop(_) | Step::Delay(_) | Step::Fail(_) | Step::Hang => {}
            Step::Text(_) | Step::Thinking { .. } | Step::Redacted(_) | Step::Call { .. } => {
                if let Some(item) = items.next() {
                    write_item(&mut writer, step, &item, index);
                    index += 1;
                }
            }
        }
    }
    let (kind, mut whole) = (format!("response.{}", status(&why)), response_body(turn, rendering));
    if is_codex && let Some(fields) = whole.as_object_mut() {
        fields.insert("output".into(), json!([]));
    }
    writer.event(Part::Finish, json!({"type": kind, "response": whole}));
    writer.out.all
}

/// Writes one item, from its beginning to its end.
fn write_item(writer: &mut Writer, step: &Step, item: &Value, index: u64) {
    let mut begun = item.clone();
    if let Some(fields) = begun.as_object_mut() {
        for (name, empty) in [("content", json!([])), ("summary", json!([])), ("arguments", json!(""))] {
            fields.entry(name).and_modify(|value| *value = empty);
        }
        fields.entry("status").and_modify(|value| *value = "in_progress".into());
    }
    let about = |kind: &str, more: Value| {
        let mut fields = Map::new();
        fields.insert("type".into(), kind.into());
        fields.insert("output_index".into(), index.into());
        fields.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(fields)
    };
    let id = item.get("id").cloned().unwrap_or_default();
    writer.event(Part::Content, about("response.output_item.added", json!({"item": begun})));
    match step {
        Step::Text(chunks) => {
            let part =
                |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
            let place = |more: Value| merged(json!({"item_id": id, "content_index": 0}), more);
            let text = chunks.concat();
            let opening = place(json!({"part": part("")}));
            writer.event(Part::Content, about("response.content_part.added", opening));
            for delta in chunks {
                // The real service hides the length of deltas with random padding.
                let more = place(json!({"delta": delta, "logprobs": [], "obfuscation": "x8Kq2"}));
                writer.event(Part::Delta, about("response.output_text.delta", more));
            }
            let end = place(json!({"text": text, "logprobs": []}));
            writer.event(Part::Content, about("response.output_text.done", end));
            let end = place(json!({"part": part(&text)}));
            writer.event(Part::Content, about("response.content_part.done", end));
        }
        Step::Thinking { chunks, .. } if !chunks.concat().is_empty() => {
            let part = |text: &str| json!({"type": "summary_text", "text": text});
            let place = |more: Value| merged(json!({"item_id": id, "summary_index": 0}), more);
            let text = chunks.concat();
            let opening = place(json!({"part": part("")}));
            writer.event(Part::Content, about("response.reasoning_summary_part.added", opening));
            for delta in chunks {
                let more = place(json!({"delta": delta, "obfuscation": "x8Kq2"}));
                writer.event(Part::Delta, about("response.reasoning_summary_text.delta", more));
            }
            let end = place(json!({"text": text}));
            writer.event(Part::Content, about("response.reasoning_summary_text.done", end));
            let end = place(json!({"part": part(&text)}));
            writer.event(Part::Content, about("response.reasoning_summary_part.done", end));
        }
        Step::Call { args, .. } => {
            for delta in args {
                let more = json!({"item_id": id, "delta": delta, "obfuscation": "x8Kq2"});
                writer.event(Part::Delta, about("response.function_call_arguments.delta", more));
            }
            let end = json!({"item_id": id, "arguments": args.concat()});
            writer.event(Part::Content, about("response.function_call_arguments.done", end));
        }
        Step::Thinking { .. }
        | Step::Redacted(_)
        | Step::Usage(_)
        | Step::Stop(_)
        | Step::Delay(_)
        | Step::Fail(_)
        | Step::Hang => {}
    }
    writer.event(Part::Content, about("response.output_item.done", json!({"item": item})));
}

fn merged(mut value: Value, more: Value) -> Value {
    if let (Some(fields), Value::Object(more)) = (value.as_object_mut(), more) {
        fields.extend(more);
    }
    value
}

pub(crate) fn response_body(turn: &Turn, rendering: Rendering<'_>) -> Value {
    let why = turn.stop_reason();
    let mut response = response(rendering, status(&why), &items(turn, rendering));
    if let Some(fields) = response.as_object_mut() {
        if let Some(reason) = incomplete(&why) {
            fields.insert("incomplete_details".into(), json!({ "reason": reason }));
        }
        if let Some(usage) = rendering.usage {
            fields.insert("usage".into(), usage_of(&usage));
        }
    }
    response
}

fn response(rendering: Rendering<'_>, status: &str, output: &[Value]) -> Value {
    json!({
        "id": format!("resp_{}", rendering.number),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "model": rendering.model,
        "output": output,
        "store": false,
    })
}

/// Items of the turn, each with its own id.
fn items(turn: &Turn, rendering: Rendering<'_>) -> Vec<Value> {
    let has_calls = turn.steps.iter().any(|step| matches!(step, Step::Call { .. }));
    let is_cut = turn.stop_reason() == StopReason::MaxTokens;
    let mut items: Vec<Value> = Vec::new();
    for step in &turn.steps {
        let id = |start: &str| format!("{start}_{}_{}", rendering.number, items.len());
        let item = match step {
            Step::Text(chunks) => {
                let text = chunks.concat();
                let part = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
                let phase = if has_calls { "commentary" } else { "final_answer" };
                json!({
                    "id": id("msg"), "type": "message", "status": "completed", "role": "assistant", "phase": phase,
                    "content": [part],
                })
            }
            Step::Thinking { chunks, signature } => {
                let text = chunks.concat();
                let part = (!text.is_empty()).then(|| json!({"type": "summary_text", "text": text}));
                let summary: Vec<Value> = part.into_iter().collect();
                json!({"id": id("rs"), "type": "reasoning", "summary": summary, "encrypted_content": signature})
            }
            Step::Redacted(payload) => {
                json!({"id": id("rs"), "type": "reasoning", "summary": [], "encrypted_content": payload})
            }
            Step::Call { id: call_id, name, args } => json!({
                "id": id("fc"), "type": "function_call", "status": "completed", "name": name,
                "call_id": call_id.as_ref().map_or("call_0", CallId::as_str), "arguments": args.concat(),
            }),
            Step::Usage(_) | Step::Stop(_) | Step::Delay(_) | Step::Fail(_) | Step::Hang => continue,
        };
        items.push(item);
    }
    if let Some(status) = items.last_mut().and_then(|last| last.get_mut("status"))
        && is_cut
    {
        *status = "incomplete".into();
    }
    items
}

/// Wire form of an event.
pub(crate) fn event(data: &Value) -> String {
    let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

/// Events of an error with the body `refusal`: the error itself, and the end of the response.
pub(crate) fn error(refusal: &Value, number: usize) -> String {
    let error = refusal
        .get("error")
        .cloned()
        .unwrap_or_else(|| json!({"code": "server_error", "message": refusal.get("detail")}));
    let failed =
        json!({"id": format!("resp_{number}"), "object": "response", "status": "failed", "error": error});
    let first = event(&json!({"type": "error", "error": error}));
    first + &event(&json!({"type": "response.failed", "response": failed}))
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.read(),
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.read() + usage.output,
    })
}

fn status(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn
        | StopReason::ToolUse
        | StopReason::StopSequence(_)
        | StopReason::PauseTurn
        | StopReason::Compaction => "completed",
        StopReason::MaxTokens
        | StopReason::Refusal(_)
        | StopReason::ContextExceeded
        | StopReason::Other(_) => "incomplete",
        StopReason::Aborted => "cancelled",
        StopReason::Error => "failed",
    }
}

fn incomplete(reason: &StopReason) -> Option<&str> {
    match reason {
        StopReason::MaxTokens => Some("max_output_tokens"),
        StopReason::Refusal(_) => Some("content_filter"),
        StopReason::ContextExceeded => Some("model_context_window_exceeded"),
        StopReason::Other(raw) => Some(raw),
        StopReason::EndTurn
        | StopReason::ToolUse
        | StopReason::StopSequence(_)
        | StopReason::PauseTurn
        | StopReason::Compaction
        | StopReason::Aborted
        | StopReason::Error => None,
    }
}
