//! Writes a request in the format of Chat Completions.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::model::{Block, Document, Image, Message, Role, ThinkingSupport, ToolContent, ToolSpec};
use zk_core::service::Request;

use super::answer_schema;
use crate::catalogue::profiles::Traits;
use crate::catalogue::profiles::{CompatProfile, FieldValue, SystemRole};
use crate::encode::answered::AnsweredCalls;
use crate::encode::documents;
use crate::encode::effort::Efforts;
use crate::encode::prefix::Encode;

/// One request to be written.
pub(super) struct Body<'a> {
    pub(super) request: &'a Request,
    pub(super) profile: &'a CompatProfile,
    pub(super) traits: Traits<'a>,
    pub(super) efforts: &'a Efforts,
    pub(super) extra: &'a Map<String, Value>,
}

const RECEIVED: &str = "I have read the results.";

impl Body<'_> {
    fn sends_cache_marks(&self) -> bool {
        self.traits.marks && self.request.cache
    }

    fn wire_tool(&self, tool: &ToolSpec) -> Value {
        let mut function = json!({
            "name": tool.name,
            "description": tool.description,
            "parameters": crate::encode::tool_schema::object(&tool.schema),
        });
        if let (Some(strict), Some(fields)) = (self.profile.strict, function.as_object_mut()) {
            fields.insert("strict".into(), strict.into());
        }
        json!({"type": "function", "function": function})
    }

    pub(super) fn system(&self) -> Option<Value> {
        if self.request.system.trim().is_empty() {
            return None;
        }
        let reasons = self.request.model.capabilities.thinking != ThinkingSupport::None;
        let role = match self.profile.system_role {
            SystemRole::DeveloperIfReasoning if reasons => "developer",
            SystemRole::DeveloperIfReasoning | SystemRole::System => "system",
        };
        let content = if self.sends_cache_marks() {
            json!([with_cache_mark(json!({"type": "text", "text": *self.request.system}))])
        } else {
            json!(*self.request.system)
        };
        Some(json!({"role": role, "content": content}))
    }

    /// Returns the history without the system prompt.
    pub(super) fn messages(&self) -> Vec<Value> {
        let history = self.request.history.messages();
        let earlier = |at| history.get(..at).unwrap_or_default();
        let messages = history.iter().enumerate();
        messages.flat_map(|(at, message)| self.wire_messages(message, earlier(at), false)).collect()
    }

    fn wire_messages(&self, message: &Message, earlier: &[Arc<Message>], marked: bool) -> Vec<Value> {
        match message.role {
            Role::Assistant => self.assistant(message).into_iter().collect(),
            Role::User => self.user_messages(message, earlier, marked),
        }
    }

    /// Converts a user message: first the results, each as a message directly after the calls, then
    /// everything else.
    fn user_messages(&self, message: &Message, earlier: &[Arc<Message>], marked: bool) -> Vec<Value> {
        let mut out = Vec::new();
        let mut parts = Vec::new();
        let calls = self.profile.tool_result_name.then(|| AnsweredCalls::of(message, earlier));
        for block in &message.content {
            match block {
                Block::ToolResult(result) => {
                    let mut content = self.result_content(&result.content);
                    if marked && let Some(text) = content.as_str() {
                        content = json!([{"type": "text", "text": text}]);
                    }
                    let mut fields = json!({
                        "role": "tool",
                        "tool_call_id": result.call_id.as_str(),
                        "content": content,
                    });
                    let name = calls.as_ref().and_then(|calls| calls.name(&result.call_id));
                    if let (Some(name), Some(fields)) = (name, fields.as_object_mut()) {
                        fields.insert("name".into(), name.into());
                    }
                    out.push(fields);
                }
                other => parts.extend(self.content_part(other)),
            }
        }
        if !parts.is_empty() {
            if !out.is_empty() && self.profile.assistant_after_tools {
                out.push(json!({"role": "assistant", "content": RECEIVED}));
            }
            out.push(json!({"role": "user", "content": message_content(parts, marked)}));
        }
        if marked
            && let Some(content) = out.last_mut().and_then(|last| last.get_mut("content"))
            && let Some(part) = content.as_array_mut().and_then(|parts| parts.last_mut())
        {
            *part = with_cache_mark(part.take());
        }
        out
    }

    fn result_content(&self, content: &ToolContent) -> Value {
        match content {
            ToolContent::Text(text) => text.as_str().into(),
            ToolContent::Blocks(blocks) if self.profile.image_in_tool_result => {
                message_content(blocks.iter().filter_map(|block| self.content_part(block)).collect(), false)
            }
            ToolContent::Blocks(_) => content.to_text().into(),
        }
    }

    fn content_part(&self, block: &Block) -> Option<Value> {
        let text = |text: &str| Some(json!({"type": "text", "text": text}));
        match block {
            Block::Text(block) => text(&block.text),
            Block::Compaction(compaction) => text(&compaction.summary),
            Block::Image(image) => Some(image_part(image)),
            Block::Document(document) => match documents::inlined(document) {
                Some(inlined) => text(&inlined),
                None => Some(document_part(document)),
            },
            Block::ToolCall(_) | Block::ToolResult(_) | Block::Thinking(_) | Block::Provider(_) => None,
        }
    }

    fn stubs_of_used_tools(&self) -> Vec<Value> {
        let history = self.request.history.messages();
        let names: BTreeSet<&str> =
            history.iter().flat_map(|message| message.calls()).map(|call| call.name.as_str()).collect();
        let schema = json!({"type": "object", "properties": {}});
        let stub = |name| self.wire_tool(&ToolSpec::new(name, "No longer available.", schema.clone()));
        names.into_iter().map(stub).collect()
    }
}

impl Encode for Body<'_> {
    fn head(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.extend_from_slice(b"{\"model\":");
        serde_json::to_writer(&mut *out, &self.request.model.id)?;
        let mut tools: Vec<Value> = self.request.tools.iter().map(|tool| self.wire_tool(tool)).collect();
        if !tools.is_empty() {
            if self.sends_cache_marks()
                && let Some(last) = tools.last_mut()
            {
                *last = with_cache_mark(last.take());
            }
            out.extend_from_slice(b",\"tools\":");
            serde_json::to_writer(&mut *out, &tools)?;
        }
        out.extend_from_slice(b",\"messages\":[");
        if let Some(system) = self.system() {
            serde_json::to_writer(&mut *out, &system)?;
        }
        Ok(())
    }

    fn message(
        &self,
        message: &Message,
        earlier: &[Arc<Message>],
        marked: bool,
        out: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        for (at, element) in self.wire_messages(message, earlier, marked).iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, element)?;
        }
        Ok(())
    }

    fn tail(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let mut fields = Map::new();
        let has_tools = !self.request.tools.is_empty();
        if !has_tools {
            let gone = if self.profile.tools_for_history { self.stubs_of_used_tools() } else { Vec::new() };
            if !gone.is_empty() {
                fields.insert("tools".into(), gone.into());
                fields.insert("tool_choice".into(), "none".into());
            }
        } else if let Some(choice) = self.tool_choice() {
            fields.insert("tool_choice".into(), choice);
        }
        let most = self.request.model.max_output.unwrap_or(u64::MAX);
        let limit = u64::from(self.request.max_tokens).min(most).max(1);
        fields.insert(self.profile.max_tokens_field.to_string(), limit.into());
        fields.insert("stream".into(), true.into());
        if self.profile.stream_options {
            fields.insert("stream_options".into(), json!({"include_usage": true}));
        }
        if let Some(store) = self.profile.store {
            fields.insert("store".into(), store.into());
        }
        if let (Some(field), Some(session)) = (&self.profile.session_field, &self.request.session) {
            fields.insert(field.to_string(), session_key(session).into());
        }
        if let (true, Some(parallel)) = (has_tools, self.profile.parallel_tool_calls) {
            fields.insert("parallel_tool_calls".into(), parallel.into());
        }
        if let Some(format) = self.request.output.as_ref().filter(|_| self.traits.has_schemas(has_tools))
            && let Some(schema) = answer_schema(self.profile, &format.schema)
        {
            let format = json!({"name": *format.name, "schema": schema, "strict": true});
            fields.insert("response_format".into(), json!({"type": "json_schema", "json_schema": format}));
        }
        self.reasoning(&mut fields);
        for field in self.traits.fields.iter().filter(|field| has_tools || !field.with_tools) {
            let value = match &field.value {
                FieldValue::Flag(flag) => Value::Bool(*flag),
                FieldValue::Word(word) => word.to_string().into(),
            };
            fields.insert(field.name.to_string(), value);
        }
        crate::encode::fields::merge_extra(
            &mut fields,
            self.extra,
            &["chat_template_kwargs", "reasoning", "thinking"],
        );
        // The limit is sent under only one of its two names, since servers reject both together.
        let limit = &*self.profile.max_tokens_field;
        fields.retain(|name, _| name == limit || !LIMIT_FIELDS.contains(&name.as_str()));
        fields.retain(|name, _| !self.profile.unsupported.iter().any(|field| field == name));
        crate::encode::fields::end(out, fields)
    }

    fn is_marked(&self, at: usize, history: &[Arc<Message>]) -> bool {
        self.sends_cache_marks() && at + 1 == history.len()
    }
}

/// Names of the field with the output limit.
const LIMIT_FIELDS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// Returns the cache key of a conversation: its id, cut to the allowed 64 characters.
pub(super) fn session_key(session: &str) -> &str {
    let end = session.char_indices().nth(64).map_or(session.len(), |(at, _)| at);
    session.get(..end).unwrap_or(session)
}

/// Returns a plain string if there is only text, which every server accepts; a list of parts otherwise.
fn message_content(parts: Vec<Value>, as_parts: bool) -> Value {
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| part.get("text").filter(|_| part.get("type") == Some(&"text".into()))?.as_str())
        .collect();
    match texts {
        Some(texts) if !as_parts => texts.join("\n\n").into(),
        Some(_) | None => parts.into(),
    }
}

fn with_cache_mark(mut element: Value) -> Value {
    if let Some(fields) = element.as_object_mut() {
        fields.insert("cache_control".into(), json!({"type": "ephemeral"}));
    }
    element
}

fn image_part(image: &Image) -> Value {
    let url = format!("data:{};base64,{}", image.media_type, image.data);
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn document_part(document: &Document) -> Value {
    let data = format!("data:{};base64,{}", document.media_type, document.data);
    let name = document.name.as_deref().unwrap_or("document");
    json!({"type": "file", "file": {"filename": name, "file_data": data}})
}
