use serde_json::Value;
use zk_core::model::{Block, Image, Message, Thinking, ToolCall, ToolContent};

use super::{joined_text, list, string};

/// System prompt and messages.
pub(super) fn conversation(body: &Value) -> (String, Vec<Message>) {
    (joined_text(body.get("system")), messages(body))
}

fn messages(body: &Value) -> Vec<Message> {
    let messages = list(body, "messages").iter().map(|message| {
        let content = match message.get("content") {
            Some(Value::String(text)) => vec![Block::text(text.clone())],
            Some(Value::Array(blocks)) => blocks.iter().filter_map(block).collect(),
            Some(_) | None => Vec::new(),
        };
        let role = message.get("role").and_then(Value::as_str);
        if role == Some("assistant") { Message::assistant(content) } else { Message::user(content) }
    });
    messages.collect()
}

fn block(value: &Value) -> Option<Block> {
    let source = |key: &str| {
        let value = value.pointer(&format!("/source/{key}")).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    match value.get("type").and_then(Value::as_str)? {
        "text" => Some(Block::text(string(value, "text"))),
        "image" => Some(Block::Image(Image::new(source("media_type"), source("data")))),
        "tool_use" => {
            let args = value.get("input").cloned().unwrap_or_default();
            Some(Block::ToolCall(ToolCall::new(string(value, "id"), string(value, "name"), args)))
        }
        "tool_result" => {
            let content = match value.get("content") {
                Some(Value::Array(blocks)) => ToolContent::Blocks(blocks.iter().filter_map(block).collect()),
                other => ToolContent::Text(joined_text(other)),
            };
            let failed = value.get("is_error") == Some(&Value::Bool(true));
            Some(Block::result(string(value, "tool_use_id"), content, failed))
        }
        "thinking" => Some(Block::Thinking(Thinking {
            text: string(value, "thinking"),
            signature: value.get("signature").and_then(Value::as_str).map(str::to_owned),
            ..Thinking::default()
        })),
        "redacted_thinking" => {
            Some(Block::Thinking(Thinking { redacted: Some(string(value, "data")), ..Thinking::default() }))
        }
        _ => None,
    }
}
