//! Reads conversations in the format of the Messages API.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use zk_core::model::{
    Block, Document, Image, Message, ModelRef, Role, Text, Thinking, ToolCall, ToolContent, ToolResult,
    WireData,
};

use super::Conversation;
use super::draft::Draft;
use super::error::FormatError;
use super::node::Node;
use crate::dialects::anthropic;

const BY_REFERENCE: &str = "it is stored at the provider, and a history holds bytes: put them here as base64, in a source of that type";

pub(super) fn read(
    system: Option<&Node<'_>>,
    messages: &Node<'_>,
    origin: &ModelRef,
) -> Result<Conversation, FormatError> {
    let mut draft = Draft::default();
    if let Some(system) = system {
        draft.add_instruction(instructions(system)?);
    }
    for message in messages.items()? {
        message.refuse_fields_besides(&["role", "content"])?;
        let content = message.at("content");
        let role = match message.required_text("role")? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => {
                draft.add_instruction(instructions(&content)?);
                continue;
            }
            _ => return Err(message.at("role").unexpected("`user`, `assistant` or `system`")),
        };
        let block = |node: &Node<'_>| match role {
            Role::User => user(node, origin),
            Role::Assistant => assistant(node, origin),
        };
        let content = match content.value {
            Value::String(text) => Vec::from_iter((!text.is_empty()).then(|| Block::text(text))),
            Value::Array(_) => content.items()?.iter().map(block).collect::<Result<_, _>>()?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                return Err(content.unexpected("a text or a list of blocks"));
            }
        };
        let origin = (role == Role::Assistant).then(|| origin.clone());
        draft.push(Message { role, origin, ..Message::user(content) });
    }
    Ok(draft.finish())
}

/// Reads instructions: a text, or several.
fn instructions(content: &Node<'_>) -> Result<String, FormatError> {
    if let Value::String(text) = content.value {
        return Ok(text.clone());
    }
    let mut texts = Vec::new();
    for block in content.items()? {
        if block.kind()? != "text" {
            return Err(block.at("type").unexpected("`text`, the only kind there is in instructions"));
        }
        block.refuse_fields_besides(&["text"])?;
        texts.push(block.required_text("text")?);
    }
    Ok(texts.join("\n\n"))
}

fn user(block: &Node<'_>, origin: &ModelRef) -> Result<Block, FormatError> {
    match block.kind()? {
        "text" => text(block, origin),
        "image" => image(block),
        "document" => document(block),
        "tool_result" => result(block),
        "tool_use" | "thinking" | "redacted_thinking" => {
            Err(block.at("type").unexpected("a kind of block that a user message has"))
        }
        _ => {
            Err(block
                .unsupported("of the user, a history holds texts, images, documents and results of tools"))
        }
    }
}

fn assistant(block: &Node<'_>, origin: &ModelRef) -> Result<Block, FormatError> {
    let wire = |data| Some(WireData { origin: origin.clone(), data });
    let thinking = Thinking { origin: Some(origin.clone()), ..Thinking::default() };
    Ok(match block.kind()? {
        "text" => text(block, origin)?,
        "thinking" => {
            block.refuse_fields_besides(&["thinking", "signature"])?;
            let signature = block.optional_text("signature")?.map(str::to_owned);
            Block::Thinking(Thinking {
                text: block.required_text("thinking")?.to_owned(),
                signature,
                ..thinking
            })
        }
        "redacted_thinking" => {
            block.refuse_fields_besides(&["data"])?;
            Block::Thinking(Thinking { redacted: Some(block.required_text("data")?.to_owned()), ..thinking })
        }
        "tool_use" => {
            block.refuse_fields_besides(&["id", "name", "input", "caller"])?;
            let input = block.at("input");
            input.object()?;
            let caller = block.field("caller").and_then(|caller| wire(json!({ "caller": caller.value })));
            let call =
                ToolCall::new(block.required_text("id")?, block.required_text("name")?, input.value.clone());
            Block::ToolCall(ToolCall { wire: caller, ..call })
        }
        "image" | "document" | "tool_result" => {
            return Err(block.at("type").unexpected("a kind of block that an assistant message has"));
        }
        // A block that only this API has is sent back unchanged.
        _ => {
            let mut fields = block.object()?.clone();
            fields.remove("cache_control");
            Block::provider(anthropic::describe_block(&fields), origin, Value::Object(fields))
        }
    })
}

fn text(block: &Node<'_>, origin: &ModelRef) -> Result<Block, FormatError> {
    block.refuse_fields_besides(&["text", "citations"])?;
    let citations = block.field("citations").map(|citations| citations.items().map(|_| citations.value));
    let citations = citations.transpose()?.filter(|citations| **citations != json!([]));
    let wire = citations
        .map(|citations| WireData { origin: origin.clone(), data: json!({ "citations": citations }) });
    Ok(Block::Text(Text { text: block.required_text("text")?.to_owned(), wire }))
}

fn image(block: &Node<'_>) -> Result<Block, FormatError> {
    block.refuse_fields_besides(&["source"])?;
    let source = block.at("source");
    let (media_type, data) = match source.kind()? {
        "base64" => base64_source(&source)?,
        "url" => {
            source.refuse_fields_besides(&["url"])?;
            source.at("url").inline_data()?
        }
        "file" => return Err(source.unsupported(BY_REFERENCE)),
        _ => return Err(source.at("type").unexpected("`base64` or `url`")),
    };
    Ok(Block::Image(Image::new(media_type, data)))
}

fn document(block: &Node<'_>) -> Result<Block, FormatError> {
    block.refuse_fields_besides(&["source", "title", "citations"])?;
    if let Some(citations) = block.field("citations") {
        citations.refuse_fields_besides(&["enabled"])?;
        if citations.boolean_field("enabled")? {
            return Err(citations.unsupported("a document there cannot ask for citations: leave them out"));
        }
    }
    let source = block.at("source");
    let (media_type, data) = match source.kind()? {
        "base64" => base64_source(&source)?,
        "text" => {
            source.refuse_fields_besides(&["media_type", "data"])?;
            let media_type = source.optional_text("media_type")?.unwrap_or("text/plain");
            if media_type != "text/plain" {
                return Err(source.at("media_type").unexpected("`text/plain`"));
            }
            (media_type.to_owned(), STANDARD.encode(source.required_text("data")?))
        }
        "url" => {
            source.refuse_fields_besides(&["url"])?;
            source.at("url").inline_data()?
        }
        "file" => return Err(source.unsupported(BY_REFERENCE)),
        "content" => return Err(source.unsupported("a document there is one piece: write it as one text")),
        _ => return Err(source.at("type").unexpected("`base64`, `text` or `url`")),
    };
    let name = block.optional_text("title")?.map(str::to_owned);
    Ok(Block::Document(Document { media_type, name, data }))
}

fn base64_source(source: &Node<'_>) -> Result<(String, String), FormatError> {
    source.refuse_fields_besides(&["media_type", "data"])?;
    Ok((source.required_text("media_type")?.to_owned(), source.required_text("data")?.to_owned()))
}

fn result(block: &Node<'_>) -> Result<Block, FormatError> {
    block.refuse_fields_besides(&["tool_use_id", "content", "is_error"])?;
    let content = block.at("content");
    let part = |part: &Node<'_>| match part.kind()? {
        "text" => {
            part.refuse_fields_besides(&["text"])?;
            Ok(Block::text(part.required_text("text")?))
        }
        "image" => image(part),
        "document" => document(part),
        _ => Err(part.unsupported("of a tool, a history holds texts, images and documents")),
    };
    let content = match content.value {
        Value::Null => ToolContent::Text(String::new()),
        Value::String(text) => text.as_str().into(),
        Value::Array(_) => ToolContent::Blocks(content.items()?.iter().map(part).collect::<Result<_, _>>()?),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(content.unexpected("a text or a list of blocks"));
        }
    };
    Ok(Block::ToolResult(ToolResult {
        call_id: block.required_text("tool_use_id")?.into(),
        content,
        is_error: block.boolean_field("is_error")?,
    }))
}
