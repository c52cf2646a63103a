//! Writes a request in the format of Ollama's native API.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::model::{Block, Message, Role, ToolSpec};
use zk_core::service::Request;

use super::think::think;
use crate::encode::answered::AnsweredCalls;
use crate::encode::documents;
use crate::encode::prefix::Encode;

/// One request to be written.
pub(super) struct Body<'a> {
    pub(super) request: &'a Request,
    pub(super) num_ctx: u32,
    pub(super) keep_alive: Option<&'a str>,
    /// Tool that the answer has to be a call of.
    pub(super) forced: Option<&'a ToolSpec>,
    pub(super) extra: &'a Map<String, Value>,
}

impl Encode for Body<'_> {
    fn head(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.extend_from_slice(b"{\"model\":");
        serde_json::to_writer(&mut *out, &self.request.model.id)?;
        if !self.request.tools.is_empty() {
            let tools: Vec<Value> = self.request.tools.iter().map(|spec| wire_tool(spec)).collect();
            out.extend_from_slice(b",\"tools\":");
            serde_json::to_writer(&mut *out, &tools)?;
        }
        out.extend_from_slice(b",\"messages\":[");
        if !self.request.system.trim().is_empty() {
            serde_json::to_writer(&mut *out, &json!({"role": "system", "content": *self.request.system}))?;
        }
        Ok(())
    }

    fn message(
        &self,
        message: &Message,
        earlier: &[Arc<Message>],
        _: bool,
        out: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        let elements = match message.role {
            Role::Assistant => vec![assistant_message(message)],
            Role::User => user_messages(message, earlier),
        };
        for (at, element) in elements.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, element)?;
        }
        Ok(())
    }

    fn tail(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let most = self.request.model.max_output.unwrap_or(u64::MAX);
        let limit = u64::from(self.request.max_tokens).min(most).max(1);
        let mut fields = Map::new();
        // Otherwise the server uses a small window and silently cuts the beginning of the prompt.
        fields.insert("options".into(), json!({"num_ctx": self.num_ctx, "num_predict": limit}));
        fields.insert("truncate".into(), false.into());
        fields.insert("shift".into(), false.into());
        fields.insert("stream".into(), true.into());
        if let Some(think) = think(self.request.model.capabilities.thinking, self.request.thinking) {
            fields.insert("think".into(), serde_json::to_value(think)?);
        }
        if let Some(tool) = self.forced {
            fields.insert("format".into(), crate::encode::tool_schema::object(&tool.schema));
        }
        if let Some(format) = self.request.output.as_ref().filter(|_| self.request.tools.is_empty()) {
            fields.insert("format".into(), crate::encode::tool_schema::object(&format.schema));
        }
        if let Some(keep_alive) = self.keep_alive {
            fields.insert("keep_alive".into(), keep_alive.into());
        }
        crate::encode::fields::merge_extra(&mut fields, self.extra, &["options"]);
        crate::encode::fields::end(out, fields)
    }

    fn is_marked(&self, _: usize, _: &[Arc<Message>]) -> bool {
        false
    }
}

fn wire_tool(spec: &ToolSpec) -> Value {
    let parameters = crate::encode::tool_schema::object(&spec.schema);
    let function = json!({"name": spec.name, "description": spec.description, "parameters": parameters});
    json!({"type": "function", "function": function})
}

fn assistant_message(message: &Message) -> Value {
    let mut text = String::new();
    let mut thought = String::new();
    let mut calls = Vec::new();
    for block in &message.content {
        match block {
            Block::Text(block) => text.push_str(&block.text),
            Block::Thinking(block) => thought.push_str(&block.text),
            Block::Compaction(block) => text.push_str(&block.summary),
            Block::ToolCall(call) => calls.push(json!({
                "id": call.id.as_str(),
                "function": {"name": call.name, "arguments": call.args},
            })),
            Block::Image(_) | Block::Document(_) | Block::ToolResult(_) | Block::Provider(_) => {}
        }
    }
    let mut fields = Map::new();
    fields.insert("role".into(), "assistant".into());
    fields.insert("content".into(), text.into());
    if !thought.is_empty() {
        fields.insert("thinking".into(), thought.into());
    }
    if !calls.is_empty() {
        fields.insert("tool_calls".into(), calls.into());
    }
    Value::Object(fields)
}

/// Converts a user message: first the results, each as a message directly after the calls, then everything
/// else in one.
fn user_messages(message: &Message, earlier: &[Arc<Message>]) -> Vec<Value> {
    let mut out = Vec::new();
    let mut texts: Vec<Cow<'_, str>> = Vec::new();
    let mut images: Vec<&str> = Vec::new();
    let calls = AnsweredCalls::of(message, earlier);
    for block in &message.content {
        match block {
            Block::ToolResult(result) => out.push(json!({
                "role": "tool",
                "content": result.content.to_text(),
                "tool_name": calls.name(&result.call_id),
                "tool_call_id": result.call_id.as_str(),
            })),
            Block::Text(block) => texts.push(Cow::Borrowed(&block.text)),
            Block::Compaction(block) => texts.push(Cow::Borrowed(&block.summary)),
            Block::Image(image) => images.push(&image.data),
            Block::Document(document) => texts.extend(documents::inlined(document).map(Cow::Owned)),
            Block::ToolCall(_) | Block::Thinking(_) | Block::Provider(_) => {}
        }
    }
    if !texts.is_empty() || !images.is_empty() {
        let mut fields = Map::new();
        fields.insert("role".into(), "user".into());
        fields.insert("content".into(), texts.join("\n\n").into());
        if !images.is_empty() {
            fields.insert("images".into(), images.into());
        }
        out.push(Value::Object(fields));
    }
    out
}
