//! Content of messages in the form of the conventions, for those who asked for it.

use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::model::{Block, Message, Role};
use zk_core::service::Redactor;

/// Maximum size of an attribute with content, in bytes. The oldest content is left out first.
const MAX_CONTENT_BYTES: usize = 128 * 1024;

/// Returns the newest messages that fit, as a JSON list with secrets redacted.
pub(super) fn messages(messages: &[Arc<Message>], redactor: &Redactor) -> String {
    let mut left = MAX_CONTENT_BYTES;
    let mut kept = Vec::new();
    for message in messages.iter().rev() {
        let mut written = message_of(message);
        redactor.redact_value(&mut written);
        let bytes = written.to_string().len();
        if bytes > left {
            if kept.is_empty() {
                kept.push(json!({"role": role(message.role), "parts": [cut_part()]}));
            }
            break;
        }
        left -= bytes;
        kept.push(written);
    }
    kept.reverse();
    Value::Array(kept).to_string()
}

/// Returns a system prompt as a JSON list with secrets redacted.
pub(super) fn instructions(system: &str, redactor: &Redactor) -> String {
    json!([text_part(&clean(system, redactor))]).to_string()
}

/// Returns arguments as JSON, up to the maximum size. Secrets are redacted before, since escapes and the cut
/// would hide them.
pub(super) fn arguments(args: &Value, redactor: &Redactor) -> String {
    let mut args = args.clone();
    redactor.redact_value(&mut args);
    bounded(args.to_string())
}

/// Returns a text with secrets redacted, up to the maximum size.
pub(super) fn clean(text: &str, redactor: &Redactor) -> String {
    bounded(redactor.redact(text).into_owned())
}

fn bounded(mut text: String) -> String {
    if text.len() > MAX_CONTENT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_CONTENT_BYTES));
    }
    text
}

fn message_of(message: &Message) -> Value {
    let parts: Vec<Value> = message.content.iter().filter_map(part).collect();
    let finish = message.stop.as_ref().map(super::serialised_name);
    match finish {
        Some(finish) => json!({"role": role(message.role), "parts": parts, "finish_reason": finish}),
        None => json!({"role": role(message.role), "parts": parts}),
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

fn part(block: &Block) -> Option<Value> {
    Some(match block {
        Block::Text(text) => text_part(&text.text),
        Block::Thinking(thinking) => json!({"type": "reasoning", "content": thinking.text}),
        Block::ToolCall(call) => {
            json!({"type": "tool_call", "id": call.id.as_str(), "name": call.name, "arguments": call.args})
        }
        Block::ToolResult(result) => json!({
            "type": "tool_call_response", "id": result.call_id.as_str(), "response": result.content.to_text(),
        }),
        Block::Image(image) => json!({"type": "blob", "modality": "image", "mime_type": image.media_type}),
        Block::Document(document) => {
            json!({"type": "blob", "modality": "document", "mime_type": document.media_type})
        }
        Block::Compaction(_) | Block::Provider(_) => return None,
    })
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}

fn cut_part() -> Value {
    text_part("(too long for a trace)")
}
