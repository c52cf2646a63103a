use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Redactor;
use crate::model::{
    Block, Display, Document, Message, Text, Thinking, ToolCall, ToolContent, ToolResult, WireData,
};

impl Redactor {
    /// Returns the message with its secrets redacted; `None` if it has none.
    ///
    /// All texts, calls and results are searched. A text signed by its provider loses the signature when it
    /// is redacted. Opaque provider data is searched for known values only. The name of a document is always
    /// searched, its content only if it is text; images and PDFs are not.
    #[must_use]
    pub fn redact_message(&self, message: &Message) -> Option<Message> {
        let blocks = self.redact_blocks(&message.content)?;
        Some(Message { content: blocks, ..message.clone() })
    }

    /// Returns the content with its secrets redacted; `None` if it has none.
    #[must_use]
    pub fn redact_content(&self, content: &ToolContent) -> Option<ToolContent> {
        match content {
            ToolContent::Text(text) => match self.redact(text) {
                Cow::Borrowed(_) => None,
                Cow::Owned(clean) => Some(ToolContent::Text(clean)),
            },
            ToolContent::Blocks(blocks) => self.redact_blocks(blocks).map(ToolContent::Blocks),
        }
    }

    /// Redacts the display form of a result; returns whether it had secrets.
    pub fn redact_display(&self, display: &mut Display) -> bool {
        match display {
            Display::Line { text } => self.redact_string(text),
            Display::Diff { path, diff } => self.redact_string(path) | self.redact_string(diff),
            Display::Lines { lines } | Display::Command { lines, .. } => self.redact_all(lines),
            Display::Markdown { text, outcome } => self.redact_string(text) | self.redact_string(outcome),
            Display::Checklist { items, .. } => {
                items.iter_mut().fold(false, |found, item| found | self.redact_string(&mut item.text))
            }
            Display::Table { head, rows } => {
                rows.iter_mut().fold(self.redact_all(head), |found, row| found | self.redact_all(row))
            }
        }
    }

    fn redact_all(&self, texts: &mut [String]) -> bool {
        texts.iter_mut().fold(false, |found, text| found | self.redact_string(text))
    }

    fn redact_blocks(&self, blocks: &[Block]) -> Option<Vec<Block>> {
        let clean: Vec<Option<Block>> = blocks.iter().map(|block| self.redact_block(block)).collect();
        clean.iter().any(Option::is_some).then(|| {
            clean
                .into_iter()
                .zip(blocks)
                .map(|(clean, block)| clean.unwrap_or_else(|| block.clone()))
                .collect()
        })
    }

    fn redact_block(&self, block: &Block) -> Option<Block> {
        match block {
            Block::Text(text) => {
                let clean = self.redact_signed(&text.text, text.wire.as_ref())?;
                Some(Block::Text(Text { text: clean, wire: None }))
            }
            Block::Thinking(thinking) => {
                let text = self.redact_signed(&thinking.text, thinking.wire.as_ref())?;
                Some(Block::Thinking(Thinking { text, wire: None, signature: None, ..thinking.clone() }))
            }
            Block::ToolCall(call) => {
                if !self.has_candidate_in_call(call) {
                    return None;
                }
                let mut clean = call.clone();
                let mut found = self.redact_value(&mut clean.args);
                found |= clean.malformed.as_mut().is_some_and(|raw| self.redact_string(raw));
                found |= clean.wire.as_mut().is_some_and(|wire| self.redact_opaque(&mut wire.data));
                found.then_some(Block::ToolCall(clean))
            }
            Block::ToolResult(result) => {
                let content = self.redact_content(&result.content)?;
                Some(Block::ToolResult(ToolResult { content, ..result.clone() }))
            }
            Block::Compaction(compaction) => {
                let mut clean = compaction.clone();
                self.redact_string(&mut clean.summary).then_some(Block::Compaction(clean))
            }
            Block::Provider(provider) => {
                let mut clean = provider.clone();
                let found = self.redact_string(&mut clean.text) | self.redact_opaque(&mut clean.wire.data);
                found.then_some(Block::Provider(clean))
            }
            Block::Document(document) => self.redact_document(document).map(Block::Document),
            Block::Image(_) => None,
        }
    }

    fn has_candidate_in_call(&self, call: &ToolCall) -> bool {
        self.has_candidate_in(&call.args)
            || call.malformed.as_ref().is_some_and(|raw| self.has_candidate(raw.as_bytes()))
            || call.wire.as_ref().is_some_and(|wire| self.has_candidate_in(&wire.data))
    }

    fn redact_document(&self, document: &Document) -> Option<Document> {
        let mut clean = document.clone();
        let mut found = clean.name.as_mut().is_some_and(|name| self.redact_string(name));
        let bytes = STANDARD.decode(document.data.trim()).ok();
        if let Some(mut text) = bytes.and_then(|bytes| String::from_utf8(bytes).ok())
            && self.redact_string(&mut text)
        {
            clean.data = STANDARD.encode(text);
            found = true;
        }
        found.then_some(clean)
    }

    /// Returns the redacted text if the text or its provider data has a secret. The provider data does not
    /// match the redacted text, so that the caller drops it.
    fn redact_signed(&self, text: &str, wire: Option<&WireData>) -> Option<String> {
        let clean = self.redact(text);
        let in_wire = wire.is_some_and(|wire| {
            self.has_candidate_in(&wire.data) && self.redact_opaque(&mut wire.data.clone())
        });
        let found = matches!(clean, Cow::Owned(_)) || in_wire;
        found.then(|| clean.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::ModelRef;

    const SECRET: &str = "correct-horse-battery";

    fn redactor() -> Redactor {
        let redactor = Redactor::new();
        redactor.learn(SECRET);
        redactor
    }

    fn wire(data: serde_json::Value) -> Option<WireData> {
        Some(WireData { origin: ModelRef::new("p", "m"), data })
    }

    #[test]
    fn no_part_of_a_message_keeps_a_secret() {
        let told = format!("it is {SECRET}");
        let blocks = vec![
            Block::text(&*told),
            Block::Text(Text { text: "cited".into(), wire: wire(json!({ "citations": [told] })) }),
            Block::Thinking(Thinking {
                text: told.clone(),
                signature: Some("signed".into()),
                ..Thinking::default()
            }),
            Block::ToolCall(ToolCall::new("c", "shell", json!({ "command": told }))),
            Block::result("c", told.clone(), false),
        ];
        let clean = redactor().redact_message(&Message::assistant(blocks)).unwrap();
        let text = serde_json::to_string(&clean).unwrap();
        assert!(!text.contains(SECRET) && !text.contains("signed"), "{text}");
        assert_eq!(text.matches(crate::service::REDACTED).count(), 4, "{text}");
    }

    #[test]
    fn a_document_of_text_and_a_name_keep_no_secret_and_other_bytes_stay() {
        let document = |name: &str, bytes: &[u8]| {
            let (media_type, data) = ("application/json".to_owned(), STANDARD.encode(bytes));
            Document { media_type, name: Some(name.to_owned()), data }
        };
        let told = format!("{{\"key\":\"{SECRET}\"}}");
        let redact = |document: Document| {
            let message = Message::user(vec![Block::Document(document)]);
            redactor().redact_message(&message).map(|clean| clean.content)
        };
        let clean = Block::Document(document("[redacted].json", br#"{"key":"[redacted]"}"#));
        assert_eq!(redact(document(&format!("{SECRET}.json"), told.as_bytes())), Some(vec![clean]));
        assert_eq!(redact(document("a.pdf", &[told.as_bytes(), &[0xff]].concat())), None);
        assert_eq!(redact(document("a.txt", b"nothing")), None);
    }

    #[test]
    fn signed_or_opaque_data_without_a_secret_is_unchanged() {
        let chance = format!("x/AKIA{}", "A1".repeat(8));
        let thinking = Thinking {
            text: "hm".into(),
            signature: Some(chance.clone()),
            wire: wire(json!([chance])),
            ..Thinking::default()
        };
        let message = Message::assistant(vec![Block::Thinking(thinking)]);
        assert_eq!(redactor().redact_message(&message), None);
    }
}
