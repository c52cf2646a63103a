//! Decoding of request bodies, for scripts that compute their turns.

mod anthropic;
mod chat;
mod gemini;
mod ollama;
mod responses;

use std::sync::Arc;

use serde_json::Value;
use zk_core::model::{Block, Image, Message};

use crate::Asked;
use crate::rules::Dialect;

pub(crate) fn decode_request(dialect: Dialect, body: &Value, number: usize) -> Asked {
    let (name, (system, messages)) = match dialect {
        Dialect::Anthropic => ("/name", anthropic::conversation(body)),
        Dialect::Chat => ("/function/name", chat::conversation(body)),
        Dialect::Responses | Dialect::Codex => ("/name", responses::conversation(body)),
        Dialect::Gemini => ("/name", gemini::conversation(body)),
        Dialect::Ollama => ("/function/name", ollama::conversation(body)),
    };
    let tools = list(body, "tools").iter().flat_map(|tool| match tool.get("functionDeclarations") {
        Some(declared) => declared.as_array().map_or(&[][..], Vec::as_slice),
        None => std::slice::from_ref(tool),
    });
    let tools = tools.filter_map(|tool| tool.pointer(name)?.as_str()).map(str::to_owned);
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

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn string(value: &Value, key: &str) -> String {
    text(value, key).to_owned()
}

/// Text of a string or of a list of text parts.
fn joined_text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
        }
        Some(_) | None => String::new(),
    }
}

/// Appends blocks to the last message if it has the same role, otherwise as a new message.
fn append_message(messages: &mut Vec<Message>, message: Message) {
    match messages.last_mut() {
        Some(last) if last.role == message.role => last.content.extend(message.content),
        _ => messages.push(message),
    }
}

/// Image of a `data:` URL.
fn data_url(url: &str) -> Option<Block> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let (media_type, data) = (media_type.to_owned(), data.to_owned());
    Some(Block::Image(Image::new(media_type, data)))
}
