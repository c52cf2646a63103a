//! Converts the blocks of a message to Gemini's parts.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use zk_core::model::{Block, Image, Message, Thinking, ToolCall, ToolContent, ToolResult, WireData};

use super::{text_run, tool_names};
use crate::encode::answered::AnsweredCalls;

/// Signature that Google documents for function calls of other models.
const FOREIGN_CALL_SIGNATURE: &str = "skip_thought_signature_validator";

/// One part: either one of the content fields with its signature, or a whole part as received.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
    #[serde(flatten)]
    opaque: Option<&'a serde_json::Value>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    args: &'a serde_json::Value,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    response: Answer<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

/// Returns the parts of an assistant message.
pub(super) fn of_model(message: &Message, wants_signatures: bool) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut is_first_call = true;
    for block in &message.content {
        match block {
            Block::Text(text) => parts.extend(texts(&text.text, text.wire.as_ref(), false)),
            Block::Thinking(thinking) => parts.extend(thoughts(thinking)),
            Block::ToolCall(call) => {
                let mut part = function_call(call);
                // Only the first call of a step needs a signature.
                if std::mem::take(&mut is_first_call) && wants_signatures {
                    part.thought_signature = part.thought_signature.or(Some(FOREIGN_CALL_SIGNATURE));
                }
                parts.push(part);
            }
            Block::Compaction(compaction) => parts.extend(texts(&compaction.summary, None, false)),
            Block::Image(image) => parts.push(own_image(image)),
            Block::Document(document) => parts.push(data(&document.media_type, &document.data)),
            Block::Provider(block) => {
                parts.push(Part { opaque: Some(&block.wire.data), ..Part::default() });
            }
            Block::ToolResult(_) => {}
        }
    }
    parts
}

/// Returns the parts of a user message: the results of calls, and everything else.
pub(super) fn of_user<'a>(
    message: &'a Message,
    earlier: &'a [Arc<Message>],
) -> (Vec<Part<'a>>, Vec<Part<'a>>) {
    let mut answers = Vec::new();
    let mut rest = Vec::new();
    let calls = AnsweredCalls::of(message, earlier);
    for block in &message.content {
        match block {
            Block::ToolResult(result) => {
                answers.push(function_response(result, calls.call(&result.call_id)));
            }
            Block::Text(text) => rest.extend(texts(&text.text, None, false)),
            Block::Compaction(compaction) => rest.extend(texts(&compaction.summary, None, false)),
            Block::Image(image) => rest.push(data(&image.media_type, &image.data)),
            Block::Document(document) => rest.push(data(&document.media_type, &document.data)),
            Block::ToolCall(_) | Block::Thinking(_) | Block::Provider(_) => {}
        }
    }
    (answers, rest)
}

fn texts<'a>(text: &'a str, wire: Option<&'a WireData>, thought: bool) -> impl Iterator<Item = Part<'a>> {
    text_run::parts(text, wire).into_iter().map(move |(text, thought_signature)| Part {
        text: Some(text),
        thought,
        thought_signature,
        ..Part::default()
    })
}

fn thoughts(thinking: &Thinking) -> Vec<Part<'_>> {
    let wire = thinking.wire.as_ref();
    match wire {
        Some(data) => texts(&thinking.text, wire, data.data.get("text").is_none()).collect(),
        None => vec![Part {
            text: Some(&thinking.text),
            thought: true,
            thought_signature: thinking.signature.as_deref(),
            ..Part::default()
        }],
    }
}

fn function_call(call: &ToolCall) -> Part<'_> {
    Part {
        function_call: Some(FunctionCall {
            id: gemini_call_id(call),
            name: tool_names::to_wire(&call.name),
            args: &call.args,
        }),
        thought_signature: signature(call.wire.as_ref()),
        ..Part::default()
    }
}

/// Converts an image that the model made.
fn own_image(image: &Image) -> Part<'_> {
    Part { thought_signature: signature(image.wire.as_ref()), ..data(&image.media_type, &image.data) }
}

fn signature(wire: Option<&WireData>) -> Option<&str> {
    wire?.data.get("thoughtSignature")?.as_str()
}

/// Returns the call id if Gemini assigned it; otherwise calls are matched by names and order.
fn gemini_call_id(call: &ToolCall) -> Option<&str> {
    let given = call.wire.as_ref().is_some_and(|wire| wire.data.get("id").is_some());
    given.then(|| call.id.as_str())
}

fn function_response<'a>(result: &'a ToolResult, call: Option<&'a ToolCall>) -> Part<'a> {
    let (text, parts) = match &result.content {
        ToolContent::Text(text) => (Cow::Borrowed(text.as_str()), Vec::new()),
        ToolContent::Blocks(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).collect();
            (Cow::Owned(texts.join("\n")), blocks.iter().filter_map(media).collect())
        }
    };
    let response = if result.is_error { Answer::Error(text) } else { Answer::Output(text) };
    Part {
        function_response: Some(FunctionResponse {
            id: call.and_then(gemini_call_id),
            name: call.map_or(Cow::Borrowed("tool"), |call| tool_names::to_wire(&call.name)),
            response,
            parts,
        }),
        ..Part::default()
    }
}

fn media(block: &Block) -> Option<Part<'_>> {
    match block {
        Block::Image(image) => Some(data(&image.media_type, &image.data)),
        Block::Document(document) => Some(data(&document.media_type, &document.data)),
        Block::Text(_)
        | Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Thinking(_)
        | Block::Compaction(_)
        | Block::Provider(_) => None,
    }
}

fn data<'a>(mime_type: &'a str, data: &'a str) -> Part<'a> {
    Part { inline_data: Some(InlineData { mime_type, data }), ..Part::default() }
}
