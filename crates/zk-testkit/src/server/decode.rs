//! A request body as what is asked, for scripts that answer to it.

use std::sync::Arc;

use serde_json::Value;
use zk_core::model::{Block, Image, Message, Role, Thinking, ToolCall, ToolContent};

use crate::Asked;
use crate::rules::Dialect;
use crate::script::parse_args;

pub(super) fn asked(dialect: Dialect, body: &Value, number: usize) -> Asked {
    let name = match dialect {
        Dialect::Anthropic => "/name",
        Dialect::Chat => "/function/name",
    };
    let tools = list(body, "tools").iter().filter_map(|tool| tool.pointer(name)?.as_str()).map(str::to_owned);
    let (system, messages) = match dialect {
        Dialect::Anthropic => (anthropic_text(body.get("system")), anthropic(body)),
        Dialect::Chat => chat(body),
    };
    Asked {
        number,
        model: string(body, "model"),
        system,
        tools: tools.collect(),
        messages: messages.into_iter().map(Arc::new).collect(),
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn string(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The text of a string or of a list of text parts.
fn anthropic_text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
        }
        Some(_) | None => String::new(),
    }
}

fn anthropic(body: &Value) -> Vec<Message> {
    let messages = list(body, "messages").iter().map(|message| {
        let content = match message.get("content") {
            Some(Value::String(text)) => vec![Block::text(text.clone())],
            Some(Value::Array(blocks)) => blocks.iter().filter_map(anthropic_block).collect(),
            Some(_) | None => Vec::new(),
        };
        let role = message.get("role").and_then(Value::as_str);
        if role == Some("assistant") { Message::assistant(content) } else { Message::user(content) }
    });
    messages.collect()
}

fn anthropic_block(block: &Value) -> Option<Block> {
    let source = |key: &str| {
        let value = block.pointer(&format!("/source/{key}")).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    match block.get("type").and_then(Value::as_str)? {
        "text" => Some(Block::text(string(block, "text"))),
        "image" => Some(Block::Image(Image { media_type: source("media_type"), data: source("data") })),
        "tool_use" => {
            let args = block.get("input").cloned().unwrap_or_default();
            Some(Block::ToolCall(ToolCall::new(string(block, "id"), string(block, "name"), args)))
        }
        "tool_result" => {
            let content = match block.get("content") {
                Some(Value::Array(blocks)) => {
                    ToolContent::Blocks(blocks.iter().filter_map(anthropic_block).collect())
                }
                other => ToolContent::Text(anthropic_text(other)),
            };
            let failed = block.get("is_error") == Some(&Value::Bool(true));
            Some(Block::result(string(block, "tool_use_id"), content, failed))
        }
        "thinking" => Some(Block::Thinking(Thinking {
            text: string(block, "thinking"),
            signature: block.get("signature").and_then(Value::as_str).map(str::to_owned),
            ..Thinking::default()
        })),
        "redacted_thinking" => {
            Some(Block::Thinking(Thinking { redacted: Some(string(block, "data")), ..Thinking::default() }))
        }
        _ => None,
    }
}

/// The system prompt and the messages, results joined with the user message after them.
fn chat(body: &Value) -> (String, Vec<Message>) {
    let mut system = Vec::new();
    let mut messages: Vec<Message> = Vec::new();
    for message in list(body, "messages") {
        let content = message.get("content");
        let mut blocks = match content {
            Some(Value::String(text)) if text.is_empty() => Vec::new(),
            Some(Value::String(text)) => vec![Block::text(text.clone())],
            Some(Value::Array(parts)) => parts.iter().filter_map(chat_part).collect(),
            Some(_) | None => Vec::new(),
        };
        let role = match message.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => {
                system.push(anthropic_text(content));
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
                blocks = vec![Block::result(id, anthropic_text(content), false)];
                Role::User
            }
            _ => Role::User,
        };
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => messages.push(Message { role, ..Message::user(blocks) }),
        }
    }
    (system.join("\n"), messages)
}

fn chat_part(part: &Value) -> Option<Block> {
    match part.get("type").and_then(Value::as_str)? {
        "text" => Some(Block::text(string(part, "text"))),
        "image_url" => {
            let url = part.pointer("/image_url/url").and_then(Value::as_str)?;
            let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
            Some(Block::Image(Image { media_type: media_type.to_owned(), data: data.to_owned() }))
        }
        _ => None,
    }
}
