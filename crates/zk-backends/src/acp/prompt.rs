use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::model::{Block, Document, Image, Message, Role};
use zk_core::service::{QUERY_CONTEXT, is_said};

use super::protocol::PromptCapabilities;

/// Maximum size of the earlier conversation in the first prompt of a session, in bytes.
const MAX_HANDED_OVER_BYTES: usize = 16 << 10;

/// Text of a prompt without any content.
const GO_ON: &str = "Continue.";

/// Returns content blocks for the messages since the last answer.
pub(crate) fn blocks_since_answer(history: &[Arc<Message>], takes: &PromptCapabilities) -> Vec<Value> {
    let is_answer = |message: &Arc<Message>| message.role == Role::Assistant;
    let from = history.iter().rposition(is_answer).map_or(0, |at| at + 1);
    let behind = history.get(from..).unwrap_or_default().iter();
    let said = behind.filter(|message| !is_query_context(message)).flat_map(|message| &message.content);
    said.filter(|block| is_said(block)).filter_map(|block| content_block(block, takes)).collect()
}

fn is_query_context(message: &Message) -> bool {
    message.injected_by.as_deref() == Some(QUERY_CONTEXT)
}

/// Assembles the blocks of a prompt, with the text of the earlier conversation first.
pub(crate) fn prompt_blocks(mut blocks: Vec<Value>, earlier: Option<String>) -> Vec<Value> {
    if blocks.is_empty() {
        blocks.push(text_block(GO_ON));
    }
    if let Some(earlier) = earlier {
        blocks.insert(0, text_block(&earlier));
    }
    blocks
}

fn content_block(block: &Block, takes: &PromptCapabilities) -> Option<Value> {
    match block {
        Block::Text(said) => Some(text_block(&said.text)),
        Block::Image(Image { media_type, data, .. }) if takes.image => {
            Some(json!({ "type": "image", "mimeType": media_type, "data": data }))
        }
        Block::Image(_) => Some(text_block("[an image, which this agent does not take]")),
        Block::Document(Document { media_type, name, data }) if takes.embedded_context => {
            let uri = format!("attachment:///{}", name.as_deref().unwrap_or("document"));
            let resource = json!({ "uri": uri, "mimeType": media_type, "blob": data });
            Some(json!({ "type": "resource", "resource": resource }))
        }
        Block::Document(_) => Some(text_block("[a document, which this agent does not take]")),
        Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Thinking(_)
        | Block::Compaction(_)
        | Block::Provider(_) => None,
    }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Returns the end of the conversation as text, for an agent that has not seen it; `None` before the first
/// answer.
pub(crate) fn earlier_conversation(history: &[Arc<Message>]) -> Option<String> {
    let last = history.iter().rposition(|message| message.role == Role::Assistant)?;
    let before = history.get(..=last)?;
    let mut parts = Vec::new();
    let mut left = MAX_HANDED_OVER_BYTES;
    for message in before.iter().rev() {
        let said = message.content.iter().filter(|block| is_said(block));
        let said = said.filter_map(Block::as_text).collect::<Vec<_>>().join("\n");
        if is_query_context(message) || said.trim().is_empty() {
            continue;
        }
        let who = match message.role {
            Role::User => "Person",
            Role::Assistant => "Agent",
        };
        let part = format!("{who}: {}", said.trim());
        if part.len() > left {
            parts.push("[earlier parts are left out]".to_owned());
            break;
        }
        left -= part.len();
        parts.push(part);
    }
    if parts.is_empty() {
        return None;
    }
    parts.reverse();
    let said = parts.join("\n\n");
    Some(format!(
        "This conversation began with another agent. What was said so far, for your information:\n\n{said}\n\nThe prompt \
         follows."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::session::AcpSession;

    fn history() -> Vec<Arc<Message>> {
        let context = Message::injected("<query_context>x</query_context>", QUERY_CONTEXT);
        let results = Message::user(vec![Block::result("c", "done", false)]);
        [
            context.clone(),
            Message::user_text("first"),
            Message::assistant(vec![Block::text("answer")]),
            results,
            context,
            Message::user(vec![
                Block::text("<dynamic_context>\nnow</dynamic_context>"),
                Block::text("second"),
            ]),
        ]
        .map(|message| message.identified().shared())
        .into()
    }

    #[test]
    fn a_prompt_is_what_the_person_said_since_the_last_answer() {
        let takes = PromptCapabilities::default();
        assert_eq!(blocks_since_answer(&history(), &takes), [text_block("second")]);
        assert_eq!(prompt_blocks(Vec::new(), None), [text_block(GO_ON)]);
    }

    #[test]
    fn blocks_that_a_failed_prompt_delivered_are_not_sent_again() {
        let session = AcpSession::new("s".to_owned(), Arc::default(), false);
        session.store_delivered(vec![text_block("a")]);
        assert_eq!(session.without_delivered(vec![text_block("a"), text_block("b")]), [text_block("b")]);
        // The person sends the text of a cancelled prompt again.
        assert_eq!(session.without_delivered(vec![text_block("a")]), [text_block("a")]);
        assert_eq!(session.without_delivered(vec![text_block("b")]), [text_block("b")]);
        session.clear_delivered();
        assert_eq!(
            session.without_delivered(vec![text_block("a"), text_block("b")]),
            [text_block("a"), text_block("b")]
        );
    }

    #[test]
    fn a_new_session_is_told_what_was_said_before() {
        let told = earlier_conversation(&history()).unwrap();
        assert!(told.contains("Person: first\n\nAgent: answer") && !told.contains("second"), "{told}");
        assert_eq!(earlier_conversation(&history()[..2]), None);
        let long: Vec<_> = (0..50)
            .map(|n| Message::assistant(vec![Block::text(format!("{n} {}", "x".repeat(1000)))]).shared())
            .collect();
        let told = earlier_conversation(&long).unwrap();
        assert!(
            told.len() < MAX_HANDED_OVER_BYTES + 500 && told.contains("left out") && told.contains("49 x")
        );
    }

    #[test]
    fn images_go_to_agents_that_take_them() {
        let image = [Message::user(vec![Block::Image(Image::new("image/png", "AAAA"))]).shared()];
        let with = PromptCapabilities { image: true, ..PromptCapabilities::default() };
        assert_eq!(blocks_since_answer(&image, &with)[0]["mimeType"], "image/png");
        assert!(blocks_since_answer(&image, &PromptCapabilities::default())[0]["text"].is_string());
    }
}
