use serde_json::Value;
use zk_core::model::{Block, CallId, Image, Message, Role, Thinking, ToolCall, ToolContent};

use super::{append_message, list, text};

/// System prompt and messages.
pub(super) fn conversation(body: &Value) -> (String, Vec<Message>) {
    let system: Vec<&str> = body.get("systemInstruction").map(|system| texts(system)).unwrap_or_default();
    let mut messages: Vec<Message> = Vec::new();
    for (at, content) in list(body, "contents").iter().enumerate() {
        let role = if text(content, "role") == "model" { Role::Assistant } else { Role::User };
        let mut open: Vec<(CallId, String)> = messages
            .last()
            .into_iter()
            .flat_map(Message::calls)
            .map(|call| (call.id.clone(), call.name.clone()))
            .collect();
        let parts = list(content, "parts").iter().enumerate();
        let blocks =
            parts.filter_map(|(number, part)| block(part, &format!("call_{at}_{number}"), &mut open));
        let blocks = blocks.collect();
        append_message(&mut messages, Message { role, ..Message::user(blocks) });
    }
    (system.join("\n"), messages)
}

fn texts(content: &Value) -> Vec<&str> {
    list(content, "parts").iter().filter_map(|part| part.get("text")?.as_str()).collect()
}

/// Parses a part. `name` is the id for a call without one; `open` are calls without a result yet.
fn block(part: &Value, name: &str, open: &mut Vec<(CallId, String)>) -> Option<Block> {
    let signature = part.get("thoughtSignature").and_then(Value::as_str).map(str::to_owned);
    if let Some(call) = part.get("functionCall") {
        let id = call.get("id").and_then(Value::as_str).unwrap_or(name);
        let args = call.get("args").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        return Some(Block::ToolCall(ToolCall::new(id, text(call, "name"), args)));
    }
    if let Some(answer) = part.get("functionResponse") {
        return Some(result(answer, open));
    }
    if let Some(data) = part.get("inlineData") {
        return Some(image(data));
    }
    let said = part.get("text")?.as_str()?.to_owned();
    if part.get("thought") == Some(&Value::Bool(true)) || (said.is_empty() && signature.is_some()) {
        return Some(Block::Thinking(Thinking { text: said, signature, ..Thinking::default() }));
    }
    Some(Block::text(said))
}

fn result(answer: &Value, open: &mut Vec<(CallId, String)>) -> Block {
    let (id, name) = (answer.get("id").and_then(Value::as_str), text(answer, "name"));
    let fits = |(call, called): &(CallId, String)| id.map_or(called == name, |id| call.as_str() == id);
    let place = open.iter().position(fits);
    let call = place.map_or_else(|| CallId::from(id.unwrap_or_default()), |place| open.remove(place).0);
    let response = answer.get("response").and_then(Value::as_object);
    let field = |key: &str| response.and_then(|response| response.get(key));
    let said = field("output").or(field("result")).or(field("error"));
    let said = said.map(|said| said.as_str().map_or_else(|| said.to_string(), str::to_owned));
    let mut blocks = vec![Block::text(said.unwrap_or_default())];
    blocks.extend(list(answer, "parts").iter().filter_map(|part| part.get("inlineData")).map(image));
    Block::result(call, ToolContent::Blocks(blocks), field("error").is_some())
}

fn image(data: &Value) -> Block {
    Block::Image(Image::new(text(data, "mimeType"), text(data, "data")))
}
