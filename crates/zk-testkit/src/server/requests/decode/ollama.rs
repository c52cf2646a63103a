use serde_json::{Map, Value};
use zk_core::model::{Block, CallId, Image, Message, Thinking, ToolCall};

use super::{append_message, list, string, text};

/// System prompt and messages.
pub(super) fn conversation(body: &Value) -> (String, Vec<Message>) {
    let mut system: Vec<&str> = Vec::new();
    let mut messages: Vec<Message> = Vec::new();
    let mut open: Vec<(CallId, String)> = Vec::new();
    for (at, message) in list(body, "messages").iter().enumerate() {
        match text(message, "role") {
            "system" => system.push(text(message, "content")),
            "assistant" => {
                let said = assistant(message, at);
                open = said.calls().map(|call| (call.id.clone(), call.name.clone())).collect();
                append_message(&mut messages, said);
            }
            "tool" => {
                let (id, name) = (text(message, "tool_call_id"), text(message, "tool_name"));
                let fits = |(call, called): &(CallId, String)| {
                    if id.is_empty() { called == name } else { call.as_str() == id }
                };
                let place = open.iter().position(fits);
                let call = place.map_or_else(|| CallId::from(id), |place| open.remove(place).0);
                append_message(
                    &mut messages,
                    Message::user(vec![Block::result(call, text(message, "content"), false)]),
                );
            }
            _ => {
                let said = Some(text(message, "content")).filter(|said| !said.is_empty()).map(Block::text);
                let images = list(message, "images").iter().filter_map(Value::as_str).map(|data| {
                    // The request does not contain the media type.
                    Block::Image(Image::new("image/*", data))
                });
                append_message(&mut messages, Message::user(said.into_iter().chain(images).collect()));
            }
        }
    }
    (system.join("\n"), messages)
}

fn assistant(message: &Value, at: usize) -> Message {
    let mut blocks = Vec::new();
    if let Some(thought) = message.get("thinking").and_then(Value::as_str) {
        blocks.push(Block::Thinking(Thinking { text: thought.to_owned(), ..Thinking::default() }));
    }
    blocks.extend(Some(text(message, "content")).filter(|said| !said.is_empty()).map(Block::text));
    for (number, call) in list(message, "tool_calls").iter().enumerate() {
        let id = call
            .get("id")
            .and_then(Value::as_str)
            .map_or_else(|| format!("call_{at}_{number}"), str::to_owned);
        let function = call.get("function").unwrap_or(&Value::Null);
        let args = function.get("arguments").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        blocks.push(Block::ToolCall(ToolCall::new(id, string(function, "name"), args)));
    }
    Message::assistant(blocks)
}
