//! Ollama's native format of a turn: one JSON object per line.

use serde_json::{Map, Value, json};
use zk_core::model::{CallId, StopReason, Usage};

use super::pieces::{Part, Piece, Pieces, Rendering};
use crate::script::{Step, Turn, parse_args};

/// Constant timestamp, so that responses are deterministic.
const CREATED: &str = "2026-01-01T00:00:00Z";

pub(crate) fn stream(turn: &Turn, rendering: Rendering<'_>) -> Vec<Piece> {
    let mut out = Pieces::new(rendering.pace);
    let say = |message: Value| line(&object(rendering, &message));
    let mut index = 0_u64;
    for step in &turn.steps {
        if out.interrupt(step).is_break() {
            return out.all;
        }
        match step {
            Step::Text(chunks) => {
                for text in chunks {
                    out.delta(say(json!({"role": "assistant", "content": text})));
                }
            }
            Step::Thinking { chunks, .. } => {
                for text in chunks {
                    out.delta(say(json!({"role": "assistant", "content": "", "thinking": text})));
                }
            }
            Step::Call { id, name, args } => {
                // Calls are sent as a whole.
                let call = call(id.as_ref(), name, &args.concat(), index);
                out.delta(say(json!({"role": "assistant", "content": "", "tool_calls": [call]})));
                index += 1;
            }
            // This format has no redacted thinking.
            Step::Redacted(_)
            | Step::Usage(_)
            | Step::Stop(_)
            | Step::Delay(_)
            | Step::Fail(_)
            | Step::Hang => {}
        }
    }
    let last = last_object(turn, rendering, &json!({"role": "assistant", "content": ""}));
    out.event(Part::Finish, line(&last));
    out.all
}

pub(crate) fn response_body(turn: &Turn, rendering: Rendering<'_>) -> Value {
    let mut message = Map::new();
    let (mut text, mut thought) = (String::new(), String::new());
    let mut calls: Vec<Value> = Vec::new();
    let mut index = 0_u64;
    for step in &turn.steps {
        match step {
            Step::Text(chunks) => text.push_str(&chunks.concat()),
            Step::Thinking { chunks, .. } => thought.push_str(&chunks.concat()),
            Step::Call { id, name, args } => {
                calls.push(call(id.as_ref(), name, &args.concat(), index));
                index += 1;
            }
            Step::Redacted(_)
            | Step::Usage(_)
            | Step::Stop(_)
            | Step::Delay(_)
            | Step::Fail(_)
            | Step::Hang => {}
        }
    }
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), text.into());
    if !thought.is_empty() {
        message.insert("thinking".into(), thought.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    last_object(turn, rendering, &message.into())
}

/// Keep-alive: a line without content.
pub(crate) fn ping() -> String {
    line(&json!({"created_at": CREATED, "message": {"role": "assistant", "content": ""}, "done": false}))
}

/// Wire form of an object.
pub(crate) fn line(data: &Value) -> String {
    format!("{data}\n")
}

fn object(rendering: Rendering<'_>, message: &Value) -> Value {
    json!({"model": rendering.model, "created_at": CREATED, "message": message, "done": false})
}

fn last_object(turn: &Turn, rendering: Rendering<'_>, message: &Value) -> Value {
    let mut last = object(rendering, message);
    let why = turn.stop_reason();
    if let Some(fields) = last.as_object_mut() {
        fields.insert("done".into(), true.into());
        fields.insert("done_reason".into(), stop_reason(&why).into());
        fields.insert("total_duration".into(), 1_000_000.into());
        if let Some(usage) = rendering.usage {
            fields.extend(token_counts(&usage));
        }
    }
    last
}

fn token_counts(usage: &Usage) -> [(String, Value); 2] {
    [("prompt_eval_count".to_owned(), usage.read().into()), ("eval_count".to_owned(), usage.output.into())]
}

/// Call with its arguments; if these are no object, they are sent as text.
fn call(id: Option<&CallId>, name: &str, raw: &str, index: u64) -> Value {
    let (args, malformed) = parse_args(raw);
    let args = malformed.map_or(args, Value::String);
    let id = id.map_or("call_0", CallId::as_str);
    json!({"id": id, "function": {"index": index, "name": name, "arguments": args}})
}

fn stop_reason(reason: &StopReason) -> &str {
    match reason {
        // Responses with calls have the same finish reason.
        StopReason::EndTurn
        | StopReason::ToolUse
        | StopReason::StopSequence(_)
        | StopReason::PauseTurn
        | StopReason::Refusal(_)
        | StopReason::Compaction => "stop",
        StopReason::MaxTokens | StopReason::ContextExceeded => "length",
        StopReason::Aborted | StopReason::Error => "unload",
        StopReason::Other(raw) => raw,
    }
}
