//! Reads conversations in the format of Chat Completions.

use serde_json::Value;
use zk_core::model::{
    Block, CallId, Document, Image, Message, ModelRef, StopReason, Thinking, ToolCall, ToolContent,
    ToolResult, WireData,
};

use super::Conversation;
use super::draft::Draft;
use super::error::FormatError;
use super::node::Node;
use crate::dialects::chat::Details;
use crate::encode::args;

/// Fields with reasoning text. Servers that fill several of them repeat the same text.
const THOUGHTS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];
const DETAILS: &str = "reasoning_details";
/// Fields that carry no information besides the call's id: the author, and the index of parallel calls.
const NAMES: [&str; 3] = ["role", "name", "index"];

pub(super) fn read(messages: &Node<'_>, origin: &ModelRef) -> Result<Conversation, FormatError> {
    let mut draft = Draft::default();
    // Name and id of a call in the old format that waits for its result: such a call has no id, and there is
    // never a second one.
    let mut waiting: Option<(String, CallId)> = None;
    for (at, message) in messages.items()?.iter().enumerate() {
        let content = message.at("content");
        match message.required_text("role")? {
            "system" | "developer" => {
                check_fields(message, &["content"])?;
                draft.add_instruction(instruction(&content)?);
            }
            "user" => {
                check_fields(message, &["content"])?;
                draft.push(Message::user(parts(&content, part)?));
            }
            "assistant" => {
                let old = CallId::from(format!("function_{at}"));
                let answer = assistant(message, origin, &old)?;
                let is_old = |call: &&ToolCall| call.id == old;
                waiting = answer.calls().find(is_old).map(|call| (call.name.clone(), old.clone()));
                draft.push(answer);
            }
            "tool" => {
                check_fields(message, &["content", "tool_call_id"])?;
                let call_id = message.required_text("tool_call_id")?.into();
                draft.add_result(ToolResult { call_id, content: result(&content)?, is_error: false });
            }
            "function" => {
                check_fields(message, &["content"])?;
                let name = message.required_text("name")?;
                let call = waiting.take().filter(|(called, _)| called == name);
                let (_, call_id) =
                    call.ok_or_else(|| message.at("name").unexpected("the function called before it"))?;
                draft.add_result(ToolResult { call_id, content: result(&content)?, is_error: false });
            }
            _ => {
                let roles = "`system`, `developer`, `user`, `assistant`, `tool` or `function`";
                return Err(message.at("role").unexpected(roles));
            }
        }
    }
    Ok(draft.finish())
}

fn check_fields(node: &Node<'_>, known: &[&str]) -> Result<(), FormatError> {
    node.refuse_fields_besides(&[&NAMES, known].concat())
}

fn instruction(content: &Node<'_>) -> Result<String, FormatError> {
    let parts = parts(content, |part| match part.kind()? {
        "text" => text(part),
        _ => Err(part.at("type").unexpected("`text`, the only kind there is in instructions")),
    })?;
    Ok(parts.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n\n"))
}

/// Reads content: a text, a list of parts, or null.
fn parts(
    content: &Node<'_>,
    part: impl Fn(&Node<'_>) -> Result<Block, FormatError>,
) -> Result<Vec<Block>, FormatError> {
    match content.value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(Vec::from_iter((!text.is_empty()).then(|| Block::text(text)))),
        Value::Array(_) => content.items()?.iter().map(part).collect(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            Err(content.unexpected("a text or a list of parts"))
        }
    }
}

fn text(part: &Node<'_>) -> Result<Block, FormatError> {
    part.refuse_fields_besides(&["text"])?;
    part.required_text("text").map(Block::text)
}

/// Reads a part of a user's or tool's message.
fn part(part: &Node<'_>) -> Result<Block, FormatError> {
    match part.kind()? {
        "text" => text(part),
        "image_url" => {
            part.refuse_fields_besides(&["image_url"])?;
            let image = part.at("image_url");
            let url = match image.value {
                Value::Object(_) => {
                    image.refuse_fields_besides(&["url", "detail"])?;
                    image.at("url")
                }
                _ => image,
            };
            let (media_type, data) = url.inline_data()?;
            Ok(Block::Image(Image::new(media_type, data)))
        }
        "file" => {
            part.refuse_fields_besides(&["file"])?;
            let file = part.at("file");
            if file.field("file_id").is_some() {
                return Err(
                    file.unsupported("it is stored at the provider: put its bytes here, as `file_data`")
                );
            }
            file.refuse_fields_besides(&["filename", "file_data"])?;
            let (media_type, data) = file.at("file_data").inline_data()?;
            let name = file.optional_text("filename")?.map(str::to_owned);
            Ok(Block::Document(Document { media_type, name, data }))
        }
        _ => Err(part.unsupported("a history holds texts, images and files")),
    }
}

fn result(content: &Node<'_>) -> Result<ToolContent, FormatError> {
    match content.value {
        Value::Array(_) => parts(content, part).map(ToolContent::Blocks),
        Value::Null => Ok(ToolContent::Text(String::new())),
        _ => content.text().map(ToolContent::from),
    }
}

fn assistant(message: &Node<'_>, origin: &ModelRef, old: &CallId) -> Result<Message, FormatError> {
    let known = ["content", "refusal", "tool_calls", "function_call", DETAILS];
    check_fields(message, &[known.as_slice(), &THOUGHTS].concat())?;
    let mut refusal = message.optional_text("refusal")?.map(str::to_owned);
    let mut blocks = Vec::from_iter(thinking(message, origin)?);
    let content = message.at("content");
    match content.value {
        Value::Array(_) => {
            for part in content.items()? {
                match part.kind()? {
                    "text" => blocks.push(text(&part)?),
                    "thinking" => blocks.push(thought(&part, origin)?),
                    "refusal" => {
                        part.refuse_fields_besides(&["refusal"])?;
                        refusal.get_or_insert_default().push_str(part.required_text("refusal")?);
                    }
                    _ => return Err(part.unsupported("of the model, a history holds texts and thoughts")),
                }
            }
        }
        _ => blocks.extend(parts(&content, text)?),
    }
    blocks.extend(calls(message, old)?.into_iter().map(Block::ToolCall));
    let stop = refusal.map(|refusal| StopReason::Refusal(Some(refusal)));
    Ok(Message { origin: Some(origin.clone()), stop, ..Message::assistant(blocks) })
}

/// Reads the reasoning next to the content.
fn thinking(message: &Node<'_>, origin: &ModelRef) -> Result<Option<Block>, FormatError> {
    let mut thoughts: Option<&str> = None;
    for name in THOUGHTS {
        let Some(text) = message.optional_text(name)? else { continue };
        if thoughts.is_some_and(|thoughts| thoughts != text) {
            return Err(message.at(name).unexpected("the same as in the field beside it"));
        }
        thoughts = Some(text);
    }
    let items = message.field(DETAILS).map(|items| items.items()).transpose()?.unwrap_or_default();
    let items = items.iter().map(|item| item.object().cloned()).collect::<Result<Vec<_>, _>>()?;
    let details = Details::whole(items);
    if thoughts.is_none() && details.is_empty() {
        return Ok(None);
    }
    let signature = details.signature().map(str::to_owned);
    let text = thoughts.map_or_else(|| details.text(), str::to_owned);
    let wire = (!details.is_empty()).then(|| WireData { origin: origin.clone(), data: details.into_value() });
    let origin = Some(origin.clone());
    Ok(Some(Block::Thinking(Thinking { text, signature, redacted: None, origin, wire })))
}

/// Reads reasoning within the content: a text, or parts of text.
fn thought(part: &Node<'_>, origin: &ModelRef) -> Result<Block, FormatError> {
    part.refuse_fields_besides(&["thinking"])?;
    let texts = parts(&part.at("thinking"), text)?;
    let text = texts.iter().filter_map(Block::as_text).collect();
    Ok(Block::Thinking(Thinking { text, origin: Some(origin.clone()), ..Thinking::default() }))
}

fn calls(message: &Node<'_>, old: &CallId) -> Result<Vec<ToolCall>, FormatError> {
    let listed = message.field("tool_calls").map(|calls| calls.items()).transpose()?.unwrap_or_default();
    let mut calls = Vec::new();
    for call in listed {
        check_fields(&call, &["id", "function"])?;
        if call.field("type").is_some_and(|kind| kind.value != "function") {
            return Err(call.at("type").unexpected("`function`, the only kind of call a history holds"));
        }
        calls.push(function(call.required_text("id")?, &call.at("function"))?);
    }
    if let Some(call) = message.field("function_call") {
        let call = function(old.as_str(), &call)?;
        // Some servers repeat a call in the old format.
        let is_repeated = calls.iter().any(|made| (&made.name, &made.args) == (&call.name, &call.args));
        if !is_repeated {
            calls.push(call);
        }
    }
    Ok(calls)
}

fn function(id: &str, function: &Node<'_>) -> Result<ToolCall, FormatError> {
    function.refuse_fields_besides(&["name", "arguments"])?;
    let arguments = function.at("arguments");
    let raw = match arguments.value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // Some servers send the object itself.
        Value::Object(_) => arguments.value.to_string(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err(arguments.unexpected("the text of an object"));
        }
    };
    Ok(args::tool_call(id.to_owned(), function.required_text("name")?.to_owned(), &raw, false))
}
