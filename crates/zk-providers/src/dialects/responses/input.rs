//! Converts a history to the items of a request.

use serde_json::{Map, Value, json};
use zk_core::model::{
    Block, Document, Image, Message, Role, Text, Thinking, ToolCall, ToolContent, WireData,
};

use super::replay_data::ReplayData;
use crate::encode::documents;

/// Longest id of a message or call that is sent back, in characters. Some servers give longer ids and reject
/// them.
const MAX_ID_CHARS: usize = 64;

/// Form in which reasoning is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reasoning {
    /// As the original sealed item, always together with the item that followed.
    Sealed,
    /// As plain text, for servers that do not seal it.
    Plain,
}

/// Returns the items of one message.
pub(super) fn items(message: &Message, reasoning: Reasoning) -> Vec<Value> {
    match message.role {
        Role::User => user_items(message),
        Role::Assistant => assistant_items(message, reasoning),
    }
}

/// Converts a user message: first the results, directly after the calls, then everything else as one message.
fn user_items(message: &Message) -> Vec<Value> {
    let mut items = Vec::new();
    let mut parts = Vec::new();
    for block in &message.content {
        match block.as_result() {
            Some(result) => items.push(json!({
                "type": "function_call_output",
                "call_id": result.call_id.as_str(),
                "output": result_output(&result.content),
            })),
            None => parts.extend(input_part(block)),
        }
    }
    if !parts.is_empty() {
        items.push(json!({"type": "message", "role": "user", "content": parts}));
    }
    items
}

fn result_output(content: &ToolContent) -> Value {
    match content {
        ToolContent::Text(text) => text.as_str().into(),
        ToolContent::Blocks(blocks) => {
            // A plain string if there is only text, which every server accepts.
            let is_text = |block: &Block| block.as_text().is_some();
            if blocks.iter().all(is_text) {
                return content.to_text().into();
            }
            blocks.iter().filter_map(input_part).collect()
        }
    }
}

fn input_part(block: &Block) -> Option<Value> {
    match block {
        Block::Text(text) => Some(input_text(&text.text)),
        Block::Compaction(compaction) => Some(input_text(&compaction.summary)),
        Block::Image(image) => Some(input_image(image)),
        Block::Document(document) => Some(match documents::inlined(document) {
            Some(text) => input_text(&text),
            None => input_file(document),
        }),
        Block::ToolCall(_) | Block::ToolResult(_) | Block::Thinking(_) | Block::Provider(_) => None,
    }
}

fn input_text(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

fn input_image(image: &Image) -> Value {
    let url = format!("data:{};base64,{}", image.media_type, image.data);
    json!({"type": "input_image", "detail": "auto", "image_url": url})
}

fn input_file(document: &Document) -> Value {
    let data = format!("data:{};base64,{}", document.media_type, document.data);
    let name = match (&document.name, document.media_type.as_str()) {
        (Some(name), _) => name,
        // The file extension has to fit the data.
        (None, "application/pdf") => "document.pdf",
        (None, _) => "document",
    };
    json!({"type": "input_file", "filename": name, "file_data": data})
}

/// A block to be sent back, with its replay data.
struct Draft<'a> {
    block: &'a Block,
    echo: ReplayData,
    /// Whether an item that depends on this sealed reasoning follows.
    has_dependent: bool,
}

fn assistant_items(message: &Message, reasoning: Reasoning) -> Vec<Value> {
    let mut drafts: Vec<Draft<'_>> = message
        .content
        .iter()
        .map(|block| Draft { block, echo: ReplayData::of(wire_data(block)), has_dependent: false })
        .collect();
    let mut wanted: Option<String> = None;
    for draft in drafts.iter_mut().rev() {
        match draft.block {
            Block::Thinking(_) => {
                draft.has_dependent = wanted.as_ref() == Some(&draft.echo.id);
                // In a chain of reasoning items each depends on the next.
                wanted = draft.echo.needs.clone().filter(|_| draft.has_dependent);
            }
            Block::Text(_) | Block::ToolCall(_) | Block::Provider(_) => wanted.clone_from(&draft.echo.needs),
            Block::Image(_) | Block::Document(_) | Block::ToolResult(_) | Block::Compaction(_) => {}
        }
    }
    let mut items = Vec::new();
    let mut sent: Option<String> = None;
    for draft in drafts {
        let echo = draft.echo;
        match draft.block {
            Block::Thinking(thinking) => match reasoning {
                Reasoning::Sealed if draft.has_dependent => {
                    if let Some(item) = sealed_item(thinking, &echo) {
                        items.push(item);
                        sent = Some(echo.id);
                    }
                }
                Reasoning::Plain if !thinking.text.is_empty() => items.push(reasoning_item(&thinking.text)),
                Reasoning::Sealed | Reasoning::Plain => {}
            },
            Block::Text(text) => {
                items.push(message_item(text, &echo, item_id(&echo, sent.as_deref(), reasoning)))
            }
            Block::ToolCall(call) => {
                items.push(call_item(call, &echo, item_id(&echo, sent.as_deref(), reasoning)))
            }
            Block::Compaction(compaction) => {
                items.push(message_item(&Text { text: compaction.summary.clone(), wire: None }, &echo, None));
            }
            Block::Provider(_) => {
                let keeps_id =
                    reasoning == Reasoning::Plain || item_id(&echo, sent.as_deref(), reasoning).is_some();
                items.extend(unchanged_item(echo, keeps_id));
            }
            Block::Image(_) | Block::Document(_) | Block::ToolResult(_) => {}
        }
    }
    items
}

fn wire_data(block: &Block) -> Option<&WireData> {
    match block {
        Block::Text(text) => text.wire.as_ref(),
        Block::ToolCall(call) => call.wire.as_ref(),
        Block::Thinking(thinking) => thinking.wire.as_ref(),
        Block::Provider(block) => Some(&block.wire),
        Block::Image(_) | Block::Document(_) | Block::ToolResult(_) | Block::Compaction(_) => None,
    }
}

/// Returns the id to send an item back with. The API checks that an item with its id follows the reasoning it
/// depends on; an item without an id is not checked.
fn item_id<'a>(echo: &'a ReplayData, sent: Option<&str>, reasoning: Reasoning) -> Option<&'a str> {
    let complete = echo.needs.is_none() || echo.needs.as_deref() == sent;
    let legal = !echo.id.is_empty() && echo.id.len() <= MAX_ID_CHARS;
    (reasoning == Reasoning::Sealed && complete && legal).then_some(&*echo.id)
}

fn sealed_item(thinking: &Thinking, echo: &ReplayData) -> Option<Value> {
    let seal = thinking.signature.as_deref()?;
    let mut item = Map::new();
    item.insert("type".into(), "reasoning".into());
    if !echo.id.is_empty() {
        item.insert("id".into(), echo.id.as_str().into());
    }
    let summary = match &echo.summary {
        Some(parts) => parts.clone(),
        None if thinking.text.is_empty() || echo.raw => Vec::new(),
        None => vec![json!({"type": "summary_text", "text": thinking.text})],
    };
    item.insert("summary".into(), summary.into());
    item.insert("encrypted_content".into(), seal.into());
    Some(Value::Object(item))
}

/// Returns an item of another kind unchanged.
fn unchanged_item(echo: ReplayData, keeps_id: bool) -> Option<Value> {
    let mut item = echo.item?;
    if !keeps_id && let Some(fields) = item.as_object_mut() {
        fields.remove("id");
    }
    Some(item)
}

fn reasoning_item(text: &str) -> Value {
    json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]})
}

fn message_item(text: &Text, echo: &ReplayData, id: Option<&str>) -> Value {
    let content = json!([{"type": "output_text", "text": text.text, "annotations": []}]);
    let mut item = Map::new();
    item.insert("type".into(), "message".into());
    item.insert("role".into(), "assistant".into());
    item.insert("content".into(), content);
    if let Some(id) = id {
        item.insert("id".into(), id.into());
        item.insert("status".into(), "completed".into());
    }
    if let Some(phase) = &echo.phase {
        item.insert("phase".into(), phase.as_str().into());
    }
    Value::Object(item)
}

fn call_item(call: &ToolCall, echo: &ReplayData, id: Option<&str>) -> Value {
    let mut item = echo.more.clone();
    item.insert("type".into(), "function_call".into());
    item.insert("call_id".into(), call.id.as_str().into());
    item.insert("name".into(), call.name.as_str().into());
    item.insert("arguments".into(), call.args.to_string().into());
    if let Some(id) = id {
        item.insert("id".into(), id.into());
    }
    Value::Object(item)
}
