//! Writes a request in the format of the Gemini API.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};
use zk_core::model::{Message, Role};
use zk_core::service::{OutputFormat, Request, ToolChoice};

use super::parts::{self, Part};
use super::thinking::Config;
use super::{schema, tool_names};
use crate::encode::prefix::Encode;

/// One request to be written.
pub(super) struct Body<'a> {
    pub(super) request: &'a Request,
    pub(super) thinking: Option<Config>,
    /// Whether the model requires signatures on the calls of other models too.
    pub(super) wants_signatures: bool,
    /// Format of the answer, if the model supports structured output.
    pub(super) output: Option<&'a OutputFormat>,
    pub(super) extra: &'a Map<String, Value>,
    /// Whether to wrap the request in the form for counting tokens.
    pub(super) count_only: bool,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

impl Body<'_> {
    fn tools(&self) -> Value {
        let declaration = |tool: &Arc<zk_core::model::ToolSpec>| {
            json!({
                "name": tool_names::to_wire(&tool.name),
                "description": tool.description,
                "parametersJsonSchema": schema::parameters(&tool.schema),
            })
        };
        json!([{"functionDeclarations": self.request.tools.iter().map(declaration).collect::<Vec<_>>()}])
    }

    fn tool_choice(&self) -> Option<Value> {
        if self.request.tools.is_empty() {
            return None;
        }
        let config = match &self.request.tool_choice {
            ToolChoice::Auto => return None,
            ToolChoice::None => json!({"mode": "NONE"}),
            ToolChoice::Required => json!({"mode": "ANY"}),
            ToolChoice::Tool(name) => {
                json!({"mode": "ANY", "allowedFunctionNames": [tool_names::to_wire(name)]})
            }
        };
        Some(json!({"functionCallingConfig": config}))
    }
}

impl Encode for Body<'_> {
    fn head(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        if self.count_only {
            let model = format!("models/{}", self.request.model.id);
            out.extend_from_slice(b"{\"generateContentRequest\":{\"model\":");
            serde_json::to_writer(&mut *out, &model)?;
            out.push(b',');
        } else {
            out.push(b'{');
        }
        if !self.request.system.trim().is_empty() {
            out.extend_from_slice(b"\"systemInstruction\":");
            serde_json::to_writer(&mut *out, &json!({"parts": [{"text": *self.request.system}]}))?;
            out.push(b',');
        }
        if !self.request.tools.is_empty() {
            out.extend_from_slice(b"\"tools\":");
            serde_json::to_writer(&mut *out, &self.tools())?;
            out.push(b',');
        }
        out.extend_from_slice(b"\"contents\":[");
        Ok(())
    }

    fn message(
        &self,
        message: &Message,
        earlier: &[Arc<Message>],
        _: bool,
        out: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        let contents = match message.role {
            Role::Assistant => {
                let parts = parts::of_model(message, self.wants_signatures);
                [Content { role: "model", parts }, Content { role: "user", parts: Vec::new() }]
            }
            Role::User => {
                // Results of calls must be alone in a message.
                let (answers, rest) = parts::of_user(message, earlier);
                [Content { role: "user", parts: answers }, Content { role: "user", parts: rest }]
            }
        };
        let before = out.len();
        for content in contents.iter().filter(|content| !content.parts.is_empty()) {
            if out.len() > before {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, content)?;
        }
        Ok(())
    }

    fn tail(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let mut fields = Map::new();
        if let Some(choice) = self.tool_choice() {
            fields.insert("toolConfig".into(), choice);
        }
        let most = self.request.model.max_output.unwrap_or(u64::MAX);
        let limit = u64::from(self.request.max_tokens).min(most).max(1);
        let mut generation = json!({"maxOutputTokens": limit});
        if let (Some(thinking), Some(generation)) = (&self.thinking, generation.as_object_mut()) {
            generation.insert("thinkingConfig".into(), serde_json::to_value(thinking)?);
        }
        if let (Some(format), Some(generation)) = (self.output, generation.as_object_mut()) {
            generation.insert("responseMimeType".into(), "application/json".into());
            generation.insert("responseJsonSchema".into(), schema::parameters(&format.schema));
        }
        fields.insert("generationConfig".into(), generation);
        crate::encode::fields::merge_extra(&mut fields, self.extra, &["generationConfig", "toolConfig"]);
        crate::encode::fields::end(out, fields)?;
        if self.count_only {
            out.push(b'}');
        }
        Ok(())
    }

    fn is_marked(&self, _: usize, _: &[Arc<Message>]) -> bool {
        false
    }
}
