//! OpenAI Chat Completions format of a turn.

use serde_json::{Map, Value, json};
use zk_core::model::{CallId, StopReason, Usage};

use super::pieces::{Part, Piece, Pieces, Rendering};
use crate::rules::Reasoning;
use crate::script::{Step, Turn};

/// Constant timestamp, so that responses are deterministic.
const CREATED: u64 = 1_767_225_600;

pub(crate) fn stream(turn: &Turn, rendering: Rendering<'_>) -> Vec<Piece> {
    let mut out = Pieces::new(rendering.pace);
    let say = |delta: Value| event(&chunk(rendering, &json!([choice(&delta, None)])));
    out.event(Part::Start, say(json!({"role": "assistant", "content": ""})));
    let mut index = 0_u32;
    for step in &turn.steps {
        if out.interrupt(step).is_break() {
            return out.all;
        }
        match step {
            Step::Text(chunks) => {
                for text in chunks {
                    out.delta(say(json!({"content": text})));
                }
            }
            Step::Thinking { chunks, signature } => {
                for text in chunks {
                    out.delta(say(reasoning_delta(rendering.reasoning, text)));
                }
                if let (Reasoning::Details, Some(proof)) = (rendering.reasoning, signature) {
                    // The signature comes in a separate event, after the text.
                    out.delta(say(json!({"reasoning_details": [reasoning_detail("signature", proof)]})));
                }
            }
            Step::Call { id, name, args } if rendering.reasoning == Reasoning::Parts => {
                // Mistral sends each call as a whole.
                let function = json!({"name": name, "arguments": args.concat()});
                let call = json!({"index": index, "id": id_text(id.as_ref()), "function": function});
                out.delta(say(json!({"tool_calls": [call]})));
                index += 1;
            }
            Step::Call { id, name, args } => {
                let function = json!({"name": name, "arguments": ""});
                let call = json!({"index": index, "id": id_text(id.as_ref()), "type": "function", "function": function});
                out.delta(say(json!({"tool_calls": [call]})));
                for text in args {
                    let call = json!({"index": index, "function": {"arguments": text}});
                    out.delta(say(json!({"tool_calls": [call]})));
                }
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
    let reason = turn.stop_reason();
    let finish = json!([choice(&json!({}), Some(stop_reason(&reason)))]);
    out.event(Part::Finish, event(&chunk(rendering, &finish)));
    if let Some(usage) = rendering.usage {
        let mut last = chunk(rendering, &json!([]));
        if let Some(fields) = last.as_object_mut() {
            fields.insert("usage".into(), usage_of(&usage));
        }
        out.event(Part::Content, event(&last));
    }
    out.event(Part::Terminal, "data: [DONE]\n\n".to_owned());
    out.all
}

pub(crate) fn response_body(turn: &Turn, rendering: Rendering<'_>) -> Value {
    let mut text = String::new();
    let mut thoughts: Vec<(String, Option<&str>)> = Vec::new();
    let mut calls: Vec<Value> = Vec::new();
    for step in &turn.steps {
        match step {
            Step::Text(chunks) => text.push_str(&chunks.concat()),
            Step::Thinking { chunks, signature } => thoughts.push((chunks.concat(), signature.as_deref())),
            Step::Call { id, name, args } => calls.push(json!({
                "id": id_text(id.as_ref()),
                "type": "function",
                "function": {"name": name, "arguments": args.concat()},
            })),
            Step::Redacted(_)
            | Step::Usage(_)
            | Step::Stop(_)
            | Step::Delay(_)
            | Step::Fail(_)
            | Step::Hang => {}
        }
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), if text.is_empty() { Value::Null } else { text.as_str().into() });
    message.extend(reasoning_fields(rendering.reasoning, &thoughts, &text));
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    let reason = turn.stop_reason();
    let mut body = json!({
        "id": format!("chatcmpl-{}", rendering.number),
        "object": "chat.completion",
        "created": CREATED,
        "model": rendering.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": stop_reason(&reason)}],
    });
    if let (Some(usage), Some(fields)) = (rendering.usage, body.as_object_mut()) {
        fields.insert("usage".into(), usage_of(&usage));
    }
    body
}

/// Delta of reasoning.
fn reasoning_delta(reasoning: Reasoning, text: &str) -> Value {
    match reasoning {
        Reasoning::Content | Reasoning::Owed => json!({"reasoning_content": text}),
        Reasoning::Details => {
            json!({"reasoning": text, "reasoning_details": [reasoning_detail("text", text)]})
        }
        Reasoning::Parts => json!({"content": [thinking_part(text)]}),
    }
}

fn reasoning_detail(field: &str, text: &str) -> Value {
    json!({"type": "reasoning.text", field: text, "format": "anthropic-claude-v1", "index": 0})
}

fn thinking_part(text: &str) -> Value {
    json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
}

/// Fields for reasoning in a whole message with the text `said`.
fn reasoning_fields(
    reasoning: Reasoning,
    thoughts: &[(String, Option<&str>)],
    said: &str,
) -> Map<String, Value> {
    let mut fields = Map::new();
    if thoughts.is_empty() {
        return fields;
    }
    let text: String = thoughts.iter().map(|(text, _)| text.as_str()).collect();
    match reasoning {
        Reasoning::Content | Reasoning::Owed => {
            fields.insert("reasoning_content".into(), text.into());
        }
        Reasoning::Details => {
            let items = thoughts.iter().map(|(text, proof)| {
                let mut item = reasoning_detail("text", text);
                if let (Some(proof), Some(fields)) = (proof, item.as_object_mut()) {
                    fields.insert("signature".into(), (*proof).into());
                }
                item
            });
            fields.insert("reasoning_details".into(), items.collect());
            fields.insert("reasoning".into(), text.into());
        }
        Reasoning::Parts => {
            let said = (!said.is_empty()).then(|| json!({"type": "text", "text": said}));
            let parts = std::iter::once(thinking_part(&text)).chain(said);
            fields.insert("content".into(), parts.collect());
        }
    }
    fields
}

/// Wire form of a chunk.
pub(crate) fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

pub(crate) fn ping() -> String {
    ": keep-alive\n\n".to_owned()
}

fn chunk(rendering: Rendering<'_>, choices: &Value) -> Value {
    json!({
        "id": format!("chatcmpl-{}", rendering.number),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": rendering.model,
        "choices": choices,
    })
}

fn choice(delta: &Value, finish: Option<&str>) -> Value {
    json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish})
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.read(),
        "completion_tokens": usage.output,
        "total_tokens": usage.read() + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

fn stop_reason(reason: &StopReason) -> &str {
    match reason {
        StopReason::EndTurn
        | StopReason::StopSequence(_)
        | StopReason::PauseTurn
        | StopReason::Compaction => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal(_) => "content_filter",
        StopReason::ContextExceeded => "model_context_window_exceeded",
        StopReason::Aborted => "aborted",
        StopReason::Error => "error",
        StopReason::Other(raw) => raw,
    }
}

fn id_text(id: Option<&CallId>) -> &str {
    id.map_or("call_0", CallId::as_str)
}
