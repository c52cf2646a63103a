use std::collections::HashMap;

use serde_json::Value;
use zk_core::model::{Block, CallId, Role};
use zk_core::service::EntryKind;

/// Maximum number of bytes of one text that are indexed.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// Maximum number of calls whose tool is remembered for their results.
const MAX_OPEN_CALLS: usize = 1000;

/// Kind of a text in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// Name that a person gave the session.
    Title,
    /// Prompt of a person.
    Prompt,
    /// Message that a plugin put into the conversation.
    Note,
    /// Text of a model.
    Answer,
    /// Reasoning of a model.
    Thinking,
    /// Arguments of a call.
    Call,
    /// Result of a call.
    Result,
}

impl TextKind {
    /// Name of the kind, as JSON has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Prompt => "prompt",
            Self::Note => "note",
            Self::Answer => "answer",
            Self::Thinking => "thinking",
            Self::Call => "call",
            Self::Result => "result",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        let all =
            [Self::Title, Self::Prompt, Self::Note, Self::Answer, Self::Thinking, Self::Call, Self::Result];
        all.into_iter().find(|kind| kind.name() == name)
    }
}

/// Text of an entry to index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) kind: TextKind,
    pub(super) text: String,
    pub(super) tool: Option<String>,
    pub(super) model: Option<String>,
}

/// Reader of a session's texts, entry by entry.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Model in use at the entry that was read last.
    pub(super) model: Option<String>,
    /// Tool names by call id, for the results that follow the calls.
    tools: HashMap<CallId, String>,
}

impl Texts {
    /// Returns the texts of the next entry that are to be indexed.
    pub(super) fn read_entry(&mut self, kind: &EntryKind) -> Vec<Text> {
        let message = match kind {
            EntryKind::Message { message, .. } => message,
            EntryKind::Model { model } => {
                self.model = Some(model.model.to_string());
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        if let Some(origin) = &message.origin {
            self.model = Some(origin.model.to_string());
        }
        if self.tools.len() > MAX_OPEN_CALLS {
            self.tools.clear();
        }
        let said = match (message.role, &message.injected_by) {
            (Role::Assistant, _) => TextKind::Answer,
            (Role::User, None) => TextKind::Prompt,
            (Role::User, Some(_)) => TextKind::Note,
        };
        let mut texts = Vec::new();
        for block in &message.content {
            let (kind, text, tool) = match block {
                Block::Text(text) => (said, text.text.clone(), None),
                Block::Compaction(compaction) => (TextKind::Note, compaction.summary.clone(), None),
                Block::Thinking(thinking) => (TextKind::Thinking, thinking.text.clone(), None),
                Block::ToolCall(call) => {
                    self.tools.insert(call.id.clone(), call.name.clone());
                    let mut text = call.name.clone();
                    add_strings(&call.args, &mut text);
                    text.extend(call.malformed.iter().flat_map(|raw| [" ", raw.as_str()]));
                    (TextKind::Call, text, Some(call.name.clone()))
                }
                Block::ToolResult(result) => {
                    (TextKind::Result, result.content.to_text(), self.tools.get(&result.call_id).cloned())
                }
                Block::Document(document) => (said, document.name.clone().unwrap_or_default(), None),
                Block::Provider(block) => (TextKind::Note, block.text.clone(), None),
                Block::Image(_) => continue,
            };
            if !text.trim().is_empty() {
                texts.push(Text { kind, text: shortened(text), tool, model: self.model.clone() });
            }
        }
        texts
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let end = (0..=MAX_TEXT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
    }
    text
}

/// Appends the strings and numbers of a value, without its keys.
fn add_strings(value: &Value, to: &mut String) {
    match value {
        Value::String(text) => {
            to.push(' ');
            to.push_str(text);
        }
        Value::Number(number) => {
            to.push(' ');
            to.push_str(&number.to_string());
        }
        Value::Array(items) => items.iter().for_each(|item| add_strings(item, to)),
        Value::Object(fields) => fields.values().for_each(|field| add_strings(field, to)),
        Value::Null | Value::Bool(_) => {}
    }
}
