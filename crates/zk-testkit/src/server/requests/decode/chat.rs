use serde_json::Value;
use zk_core::model::{Block, Message, Role, ToolCall};

use super::{append_message, data_url, joined_text, list, string};
use crate::script::parse_args;

/// System prompt and messages; results are joined with the user message after them.
pub(super) fn conversation(body: &Value) -> (String, Vec<Message>) {
    let mut system = Vec::new();
    let mut messages: Vec<Message> = Vec::new();
    for message in list(body, "messages") {
        let content = message.get("content");
        let mut blocks = match content {
            Some(Value::String(text)) if text.is_empty() => Vec::new(),
            Some(Value::String(text)) => vec![Block::text(text.clone())],
            Some(Value::Array(parts)) => parts.iter().filter_map(part).collect(),
            Some(_) | None => Vec::new(),
        };
        let role = match message.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => {
                system.push(joined_text(content));
                continue;
            }
            Some("assistant") => {
                blocks.extend(list(message, "tool_calls").iter().map(|call| {
                    let text = |at: &str| call.pointer(at).and_then(Value::as_str).unwrap_or_default();
                    let (args, malformed) = parse_args(text("/function/arguments"));
                    let call = ToolCall::new(text("/id"), text("/function/name"), args);
                    Block::ToolCall(ToolCall { malformed, ..call })
                }));
                Role::Assistant
            }
            Some("tool") => {
                let id = string(message, "tool_call_id");
                blocks = vec![Block::result(id, joined_text(content), false)];
                Role::User
            }
            _ => Role::User,
        };
        append_message(&mut messages, Message { role, ..Message::user(blocks) });
    }
    (system.join("\n"), messages)
}

fn part(value: &Value) -> Option<Block> {
    match value.get("type").and_then(Value::as_str)? {
        "text" => Some(Block::text(string(value, "text"))),
        "image_url" => data_url(value.pointer("/image_url/url")?.as_str()?),
        _ => None,
    }
}
