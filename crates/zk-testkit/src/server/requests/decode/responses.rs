use serde_json::Value;
use zk_core::model::{Block, Message, Thinking, ToolCall, ToolContent};

use super::{append_message, data_url, joined_text, list, string, text};
use crate::script::parse_args;

/// System prompt and messages.
pub(super) fn conversation(body: &Value) -> (String, Vec<Message>) {
    let mut system = vec![string(body, "instructions")];
    let mut messages: Vec<Message> = Vec::new();
    if let Some(text) = body.get("input").and_then(Value::as_str) {
        messages.push(Message::user_text(text));
    }
    for item in list(body, "input") {
        let content = item.get("content");
        match (text(item, "type"), text(item, "role")) {
            ("reasoning", _) => append_message(&mut messages, Message::assistant(vec![reasoning(item)])),
            ("function_call", _) => append_message(&mut messages, Message::assistant(vec![call(item)])),
            ("function_call_output", _) => {
                let output = match item.get("output") {
                    Some(Value::Array(parts)) => ToolContent::Blocks(parts.iter().filter_map(part).collect()),
                    other => ToolContent::Text(joined_text(other)),
                };
                append_message(
                    &mut messages,
                    Message::user(vec![Block::result(string(item, "call_id"), output, false)]),
                );
            }
            (_, "system" | "developer") => system.push(joined_text(content)),
            (_, "assistant") => {
                append_message(&mut messages, Message::assistant(vec![Block::text(joined_text(content))]))
            }
            (_, "user") => {
                let blocks = match content {
                    Some(Value::Array(parts)) => parts.iter().filter_map(part).collect(),
                    other => vec![Block::text(joined_text(other))],
                };
                append_message(&mut messages, Message::user(blocks));
            }
            _ => {}
        }
    }
    system.retain(|text| !text.is_empty());
    (system.join("\n"), messages)
}

fn reasoning(item: &Value) -> Block {
    Block::Thinking(Thinking {
        text: joined_text(item.get("summary")),
        signature: item.get("encrypted_content").and_then(Value::as_str).map(str::to_owned),
        ..Thinking::default()
    })
}

fn call(item: &Value) -> Block {
    let (args, malformed) = parse_args(text(item, "arguments"));
    let call = ToolCall::new(string(item, "call_id"), string(item, "name"), args);
    Block::ToolCall(ToolCall { malformed, ..call })
}

fn part(value: &Value) -> Option<Block> {
    match text(value, "type") {
        "input_text" | "output_text" => Some(Block::text(string(value, "text"))),
        "input_image" => data_url(text(value, "image_url")),
        _ => None,
    }
}
