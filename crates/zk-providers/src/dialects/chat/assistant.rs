//! Encodes an assistant message for the next request.

use serde_json::{Map, Value, json};
use zk_core::model::{Block, Message, Thinking, ThinkingSupport};

use super::details;
use super::request::Body;
use crate::catalogue::profiles::{EmptyContent, ReasoningEcho};

impl Body<'_> {
    pub(super) fn assistant(&self, message: &Message) -> Option<Value> {
        let text: String = message.content.iter().filter_map(Block::as_text).collect();
        let calls: Vec<Value> = message
            .calls()
            .map(|call| {
                let function = json!({"name": call.name, "arguments": call.args.to_string()});
                json!({"id": call.id.as_str(), "type": "function", "function": function})
            })
            .collect();
        if text.is_empty() && calls.is_empty() {
            return None;
        }
        let thoughts: Vec<&Thinking> = message.content.iter().filter_map(Block::as_thinking).collect();
        let mut fields = Map::new();
        fields.insert("role".into(), "assistant".into());
        match self.profile.empty_content {
            _ if !text.is_empty() => fields.insert("content".into(), text.into()),
            EmptyContent::Null => fields.insert("content".into(), Value::Null),
            EmptyContent::Blank => fields.insert("content".into(), "".into()),
            EmptyContent::Absent => None,
        };
        self.add_reasoning_echo(&thoughts, &mut fields);
        if !calls.is_empty() {
            fields.insert("tool_calls".into(), calls.into());
        }
        Some(Value::Object(fields))
    }

    fn add_reasoning_echo(&self, thoughts: &[&Thinking], fields: &mut Map<String, Value>) {
        if self.traits.details {
            let items = thoughts.iter().filter_map(|thought| thought.wire.as_ref()?.data.get(details::FIELD));
            let items: Vec<Value> = items.filter_map(Value::as_array).flatten().cloned().collect();
            if !items.is_empty() {
                fields.insert(details::FIELD.into(), items.into());
                return;
            }
        }
        let thought: String = thoughts.iter().map(|thought| thought.text.as_str()).collect();
        let reasons = self.request.model.capabilities.thinking != ThinkingSupport::None;
        let content = fields.get("content").and_then(Value::as_str).unwrap_or_default();
        let (name, value) = match self.traits.echo {
            ReasoningEcho::No => return,
            ReasoningEcho::Always { field, blank } if thought.is_empty() && reasons => {
                (field.as_ref(), blank.as_ref().into())
            }
            _ if thought.is_empty() => return,
            ReasoningEcho::In(field) | ReasoningEcho::Always { field, .. } => {
                (field.as_ref(), thought.into())
            }
            ReasoningEcho::Tags => ("content", format!("<think>{thought}</think>{content}").into()),
            ReasoningEcho::Parts => {
                let thought = json!({"type": "thinking", "thinking": [{"type": "text", "text": thought}]});
                let answer = (!content.is_empty()).then(|| json!({"type": "text", "text": content}));
                ("content", std::iter::once(thought).chain(answer).collect())
            }
        };
        fields.insert(name.to_owned(), value);
    }
}
