//! Writes a request in the format of the Responses API.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::model::{Message, ThinkingLevel, ThinkingSupport, ToolSpec};
use zk_core::service::{Request, ToolChoice};

use super::{ResponsesBackend, ResponsesOptions, input};
use crate::catalogue::schema_limits;
use crate::encode::compact_at::CompactAt;
use crate::encode::effort::Efforts;
use crate::encode::prefix::Encode;
use crate::encode::strict_schema;

/// Smallest output limit that the API accepts, in tokens.
const MIN_OUTPUT_TOKENS: u64 = 16;
/// Length limit of a cache key in characters.
const MAX_KEY_CHARS: usize = 64;

/// One request to be written.
pub(super) struct Body<'a> {
    pub(super) request: &'a Request,
    pub(super) options: &'a ResponsesOptions,
    pub(super) extra: &'a Map<String, Value>,
    pub(super) efforts: &'a Efforts,
    /// Whether to write only the fields that affect the input, for counting tokens.
    pub(super) count_only: bool,
}

impl Body<'_> {
    fn is_compatible(&self) -> bool {
        self.options.backend == ResponsesBackend::Compatible
    }

    fn can_reason(&self) -> bool {
        self.request.model.capabilities.thinking != ThinkingSupport::None
    }

    fn reasoning(&self) -> Option<Value> {
        let level = self.request.thinking.level;
        let mut fields = Map::new();
        if let Some(effort) = self.efforts.value(level) {
            fields.insert("effort".into(), effort.into());
        }
        if let Some(summary) = &self.options.reasoning_summary
            && level != ThinkingLevel::Off
            && !self.is_compatible()
        {
            fields.insert("summary".into(), summary.as_str().into());
        }
        (self.can_reason() && !fields.is_empty()).then_some(Value::Object(fields))
    }

    fn tool_choice(&self) -> Option<Value> {
        if self.request.tools.is_empty() {
            return None;
        }
        match &self.request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some("none".into()),
            // A compatible server is offered only this tool then.
            ToolChoice::Tool(_) if self.is_compatible() => Some("required".into()),
            ToolChoice::Required => Some("required".into()),
            ToolChoice::Tool(name) => Some(json!({"type": "function", "name": name})),
        }
    }

    fn limit(&self) -> Option<u64> {
        limit(self.request, self.options.backend)
    }
}

/// Returns the output limit to send; `None` if the back end accepts none.
pub(super) fn limit(request: &Request, backend: ResponsesBackend) -> Option<u64> {
    let most = request.model.max_output.unwrap_or(u64::MAX);
    let limit = u64::from(request.max_tokens).min(most);
    match backend {
        ResponsesBackend::Api => Some(limit.max(MIN_OUTPUT_TOKENS)),
        ResponsesBackend::Subscription => None,
        ResponsesBackend::Compatible => Some(limit.max(1)),
    }
}

/// Returns the key under which the provider looks up its prompt cache.
pub(super) fn cache_key(request: &Request) -> Option<String> {
    request.session.as_ref().map(|session| session.chars().take(MAX_KEY_CHARS).collect())
}

fn wire_tool(tool: &ToolSpec) -> Value {
    // The API defaults to strict schemas, which rewrites schemas that were not made for it.
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": crate::encode::tool_schema::object(&tool.schema),
        "strict": false,
    })
}

impl Encode for Body<'_> {
    fn head(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.extend_from_slice(b"{\"model\":");
        serde_json::to_writer(&mut *out, &self.request.model.id)?;
        // The back end for subscriptions requires the field, even if empty.
        let is_wanted = matches!(self.options.backend, ResponsesBackend::Subscription);
        if is_wanted || !self.request.system.trim().is_empty() {
            out.extend_from_slice(b",\"instructions\":");
            serde_json::to_writer(&mut *out, &*self.request.system)?;
        }
        if !self.request.tools.is_empty() {
            out.extend_from_slice(b",\"tools\":");
            let tools: Vec<Value> = self.request.tools.iter().map(|spec| wire_tool(spec)).collect();
            serde_json::to_writer(&mut *out, &tools)?;
        }
        out.extend_from_slice(b",\"input\":[");
        Ok(())
    }

    fn message(
        &self,
        message: &Message,
        _: &[Arc<Message>],
        _: bool,
        out: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        let reasoning = if self.is_compatible() { input::Reasoning::Plain } else { input::Reasoning::Sealed };
        for (at, item) in input::items(message, reasoning).iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, item)?;
        }
        Ok(())
    }

    fn tail(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let mut fields = Map::new();
        if let Some(choice) = self.tool_choice() {
            fields.insert("tool_choice".into(), choice);
        }
        if let Some(reasoning) = self.reasoning() {
            fields.insert("reasoning".into(), reasoning);
        }
        if let Some(format) = self.request.output.as_ref().filter(|_| !self.is_compatible())
            && let Some(schema) = strict_schema::strict(&format.schema, schema_limits::COMPLETIONS)
        {
            let format =
                json!({"type": "json_schema", "name": *format.name, "schema": schema, "strict": true});
            fields.insert("text".into(), json!({ "format": format }));
        }
        if !self.count_only {
            fields.insert("stream".into(), true.into());
            // The whole history is sent each time, so the provider need not store it.
            fields.insert("store".into(), false.into());
            if let Some(limit) = self.limit() {
                fields.insert("max_output_tokens".into(), limit.into());
            }
            if !self.is_compatible() {
                if self.can_reason() {
                    fields.insert("include".into(), json!(["reasoning.encrypted_content"]));
                }
                if let Some(key) = cache_key(self.request) {
                    fields.insert("prompt_cache_key".into(), key.into());
                }
            }
            if let Some(asked) = &self.options.context_management {
                let window = self.request.model.window;
                let asked = CompactAt::in_list(self.options.compact_at, asked, window);
                fields.insert("context_management".into(), asked);
            }
            crate::encode::fields::merge_extra(&mut fields, self.extra, &["reasoning", "text"]);
        }
        crate::encode::fields::end(out, fields)
    }

    fn is_marked(&self, _: usize, _: &[Arc<Message>]) -> bool {
        false
    }
}
