//! Writes a request in the format of the Messages API.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Map, Value, json};
use zk_core::model::{Block, Document, Image, Message, Role, ToolContent, ToolResult, ToolSpec};
use zk_core::service::{Request, ToolChoice, is_dynamic_context};

use super::cache_marks::{self, CacheControl};
use super::hosted;
use super::thinking::ThinkingParams;
use crate::catalogue::schema_limits;
use crate::catalogue::thinking::has_formats;
use crate::encode::compact_at::CompactAt;
use crate::encode::documents;
use crate::encode::prefix::Encode;
use crate::encode::strict_schema;

/// One request to be written.
pub(super) struct Body<'a> {
    pub(super) request: &'a Request,
    pub(super) mark: Option<CacheControl>,
    pub(super) thinking: ThinkingParams,
    pub(super) extra: &'a Map<String, Value>,
    pub(super) options: &'a super::AnthropicOptions,
    /// Whether to write only the fields that affect the input, for counting tokens.
    pub(super) count_only: bool,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Vec<WireBlock<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireBlock<'a> {
    Own {
        #[serde(flatten)]
        kind: Kind<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// A block in the API's own format, sent unchanged.
    Opaque(&'a Value),
}

impl<'a> WireBlock<'a> {
    fn new(kind: Kind<'a>) -> Self {
        Self::Own { kind, cache_control: None }
    }

    /// Marks the block for the cache. Returns whether such a block can be marked.
    fn mark(&mut self, mark: Option<CacheControl>) -> bool {
        match self {
            Self::Opaque(_)
            | Self::Own { kind: Kind::Thinking { .. } | Kind::RedactedThinking { .. }, .. } => false,
            Self::Own { cache_control, .. } => {
                *cache_control = mark;
                true
            }
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Kind<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<&'a Value>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        caller: Option<&'a Value>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Content<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Blocks(Vec<WireBlock<'a>>),
}

#[derive(Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireTool<'a> {
    Own {
        name: &'a str,
        description: &'a str,
        input_schema: &'a Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Hosted(&'a Value),
}

impl Body<'_> {
    /// Returns the schema that the answer has to follow.
    fn answer_format(&self) -> Option<Value> {
        let format = self.request.output.as_ref()?;
        strict_schema::strict(&format.schema, schema_limits::MESSAGES)
            .filter(|_| has_formats(&self.request.model.id))
    }
}

impl Encode for Body<'_> {
    fn head(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.extend_from_slice(b"{\"model\":");
        serde_json::to_writer(&mut *out, &self.request.model.id)?;
        if let Some(system) = system(&self.request.system, self.mark) {
            out.extend_from_slice(b",\"system\":");
            serde_json::to_writer(&mut *out, &system)?;
        }
        if !self.request.tools.is_empty() {
            out.extend_from_slice(b",\"tools\":");
            let last = self.request.tools.len() - 1;
            let schemas: Vec<Value> = self.request.tools.iter().map(|tool| input_schema(tool)).collect();
            let own = self.request.tools.iter().zip(&schemas).enumerate();
            let own = own.map(|(at, (tool, input_schema))| WireTool::Own {
                name: &tool.name,
                description: &tool.description,
                input_schema,
                cache_control: self.mark.filter(|_| at == last),
            });
            let hosted = self.options.hosted_tools.iter().map(WireTool::Hosted);
            serde_json::to_writer(&mut *out, &hosted.chain(own).collect::<Vec<_>>())?;
        }
        out.extend_from_slice(b",\"messages\":[");
        Ok(())
    }

    fn message(
        &self,
        message: &Message,
        _: &[Arc<Message>],
        marked: bool,
        out: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        // A message without blocks is invalid; this one had only an unfinished call of the provider.
        match wire_message(message, self.mark.filter(|_| marked)) {
            Some(message) => serde_json::to_writer(&mut *out, &message),
            None => Ok(()),
        }
    }

    fn tail(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let mut fields = Map::new();
        if self.request.tools.is_empty() {
            // The API requires tools that the history used to be declared, even if none is offered.
            let gone = stubs_of_used_tools(self.request.history.messages());
            let hosted = &self.options.hosted_tools;
            if hosted.is_empty() && !gone.is_empty() {
                fields.insert("tool_choice".into(), json!({"type": "none"}));
            }
            let tools: Vec<Value> = hosted.iter().cloned().chain(gone).collect();
            if !tools.is_empty() {
                fields.insert("tools".into(), tools.into());
            }
        } else if let Some(choice) = tool_choice(&self.request.tool_choice) {
            fields.insert("tool_choice".into(), choice);
        }
        if let Some(container) = hosted::container(self.request.history.messages(), SystemTime::now()) {
            fields.insert("container".into(), container.into());
        }
        if let Some(thinking) = &self.thinking.thinking {
            fields.insert("thinking".into(), serde_json::to_value(thinking)?);
        }
        let mut config = Map::new();
        if let Some(effort) = &self.thinking.effort {
            config.insert("effort".into(), effort.to_string().into());
        }
        if let Some(schema) = self.answer_format() {
            config.insert("format".into(), json!({"type": "json_schema", "schema": schema}));
        }
        if !config.is_empty() {
            fields.insert("output_config".into(), config.into());
        }
        if !self.count_only {
            fields.insert("max_tokens".into(), max_tokens(self.request).into());
            fields.insert("stream".into(), true.into());
            if let Some(asked) = &self.options.context_management {
                let window = self.request.model.window;
                let asked = CompactAt::in_edits(self.options.compact_at, asked, window);
                fields.insert("context_management".into(), asked);
            }
            crate::encode::fields::merge_extra(&mut fields, self.extra, &["output_config"]);
        }
        crate::encode::fields::end(out, fields)
    }

    fn is_marked(&self, at: usize, history: &[Arc<Message>]) -> bool {
        let has_room = || !cache_marks::has_other_marks(self.extra, &self.options.hosted_tools);
        let is_last = at + 1 == history.len();
        self.mark.is_some() && (is_last || (cache_marks::is_far_back(at, history) && has_room()))
    }
}

/// Converts a conversation without a request: returns the system prompt, if there is one, and the messages.
pub(super) fn conversation(
    text: &str,
    history: &[Arc<Message>],
) -> serde_json::Result<(Option<Value>, Vec<Value>)> {
    let system = system(text, None).map(serde_json::to_value).transpose()?;
    let messages = history.iter().filter_map(|message| wire_message(message, None));
    Ok((system, messages.map(serde_json::to_value).collect::<Result<_, _>>()?))
}

fn system(text: &str, mark: Option<CacheControl>) -> Option<[WireBlock<'_>; 1]> {
    if text.trim().is_empty() {
        return None;
    }
    let mut text = WireBlock::new(text_kind(text));
    text.mark(mark);
    Some([text])
}

/// Converts one message, with its end marked for the cache if there is a mark; `None` if none of its blocks
/// can be sent.
fn wire_message(message: &Message, mark: Option<CacheControl>) -> Option<WireMessage<'_>> {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let sendable = |block: &&Block| !hosted::is_unanswered(block, message);
    let mut content: Vec<WireBlock<'_>> = message.content.iter().filter(sendable).filter_map(block).collect();
    if mark.is_some() {
        // Content that is sent only once is not worth caching.
        let once = message.content.iter().rev().take_while(|block| is_dynamic_context(block)).count();
        content.iter_mut().rev().skip(once).any(|block| block.mark(mark));
    }
    (!content.is_empty()).then_some(WireMessage { role, content })
}

fn block(block: &Block) -> Option<WireBlock<'_>> {
    let kind = match block {
        Block::Text(text) => Kind::Text {
            text: &text.text,
            citations: text.wire.as_ref().and_then(|wire| wire.data.get("citations")),
        },
        Block::Image(image) => Kind::Image { source: image_source(image) },
        Block::Document(document) => {
            Kind::Document { source: document_source(document), title: document.name.as_deref() }
        }
        Block::ToolCall(call) => Kind::ToolUse {
            id: call.id.as_str(),
            name: &call.name,
            input: &call.args,
            caller: call.wire.as_ref().and_then(|wire| wire.data.get("caller")),
        },
        Block::ToolResult(result) => tool_result(result),
        Block::Thinking(thinking) => match (&thinking.redacted, &thinking.signature) {
            (Some(data), _) => Kind::RedactedThinking { data },
            (None, Some(signature)) => Kind::Thinking { thinking: &thinking.text, signature },
            (None, None) => return None,
        },
        Block::Compaction(compaction) => text_kind(&compaction.summary),
        Block::Provider(block) => return hosted::block_to_send(block).map(WireBlock::Opaque),
    };
    Some(WireBlock::new(kind))
}

fn text_kind(text: &str) -> Kind<'_> {
    Kind::Text { text, citations: None }
}

fn tool_result(result: &ToolResult) -> Kind<'_> {
    let content = match &result.content {
        ToolContent::Text(text) => Content::Text(text),
        ToolContent::Blocks(blocks) => Content::Blocks(blocks.iter().filter_map(block).collect()),
    };
    Kind::ToolResult { tool_use_id: result.call_id.as_str(), content, is_error: result.is_error }
}

fn image_source(image: &Image) -> Source<'_> {
    Source { kind: "base64", media_type: &image.media_type, data: Cow::Borrowed(&image.data) }
}

fn document_source(document: &Document) -> Source<'_> {
    match documents::text(document) {
        Some(text) => Source { kind: "text", media_type: "text/plain", data: Cow::Owned(text) },
        None => {
            Source { kind: "base64", media_type: &document.media_type, data: Cow::Borrowed(&document.data) }
        }
    }
}

/// Returns the tool's schema with its type set to object, as the API requires.
fn input_schema(tool: &ToolSpec) -> Value {
    crate::encode::tool_schema::object(&tool.schema)
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!({"type": "none"})),
        ToolChoice::Required => Some(json!({"type": "any"})),
        ToolChoice::Tool(name) => Some(json!({"type": "tool", "name": name})),
    }
}

fn stubs_of_used_tools(history: &[Arc<Message>]) -> Vec<Value> {
    let names: BTreeSet<&str> =
        history.iter().flat_map(|message| message.calls()).map(|call| call.name.as_str()).collect();
    let stub = |name| {
        json!({
            "name": name,
            "description": "No longer available.",
            "input_schema": {"type": "object", "properties": {}},
        })
    };
    names.into_iter().map(stub).collect()
}

/// Returns the output limit to send, at most the model's own, in tokens.
pub(super) fn max_tokens(request: &Request) -> u32 {
    let most = request.model.max_output.and_then(|most| most.try_into().ok()).unwrap_or(u32::MAX);
    request.max_tokens.min(most).max(1)
}

pub(super) fn is_forced(request: &Request) -> bool {
    match request.tool_choice {
        ToolChoice::Required | ToolChoice::Tool(_) => true,
        ToolChoice::Auto | ToolChoice::None => false,
    }
}
