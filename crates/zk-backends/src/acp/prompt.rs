use std::sync::Arc;

use serde_json::{Value, json};
use zk_core::model::{Block, Document, Image, Message, Role};
use zk_core::service::{QUERY_CONTEXT, is_dynamic_context};

use super::protocol::PromptCapabilities;
use super::session::AcpSession;

/// Bytes of the conversation so far that a new session is told.
const MAX_HANDED_OVER_BYTES: usize = 16 << 10;

/// Words for a prompt without any of the person.
const GO_ON: &str = "Continue.";

/// Returns the messages that the agent has not got: those behind its last answer.
pub(crate) fn new_messages<'a>(
    history: &'a [Arc<Message>],
    session: Option<&AcpSession>,
) -> Vec<&'a Arc<Message>> {
    let is_answer = |message: &Arc<Message>| message.role == Role::Assistant;
    let from = history.iter().rposition(is_answer).map_or(0, |at| at + 1);
    let is_known = |message: &Arc<Message>| {
        session.zip(message.id.as_ref()).is_some_and(|(session, id)| session.has(id))
    };
    let is_context = |message: &Arc<Message>| message.injected_by.as_deref() == Some(QUERY_CONTEXT);
    let says = |message: &Arc<Message>| message.content.iter().any(is_said);
    let behind = history.get(from..).unwrap_or_default().iter();
    behind.filter(|message| !is_context(message) && !is_known(message) && says(message)).collect()
}

/// Whether a block is part of a prompt: results of calls, and the context that zk tells its own models, are not.
fn is_said(block: &Block) -> bool {
    match block {
        Block::Text(_) => !is_dynamic_context(block),
        Block::Image(_) | Block::Document(_) => true,
        Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Thinking(_)
        | Block::Compaction(_)
        | Block::Provider(_) => false,
    }
}

/// Content blocks of a prompt; with `earlier`, the conversation before it comes first.
pub(crate) fn prompt(
    messages: &[&Arc<Message>],
    earlier: Option<String>,
    takes: &PromptCapabilities,
) -> Vec<Value> {
    let said = messages.iter().flat_map(|message| &message.content).filter(|block| is_said(block));
    let mut blocks: Vec<Value> = said.filter_map(|block| content(block, takes)).collect();
    if blocks.is_empty() {
        blocks.push(text(GO_ON));
    }
    if let Some(earlier) = earlier {
        blocks.insert(0, text(&earlier));
    }
    blocks
}

fn content(block: &Block, takes: &PromptCapabilities) -> Option<Value> {
    match block {
        Block::Text(said) => Some(text(&said.text)),
        Block::Image(Image { media_type, data, .. }) if takes.image => {
            Some(json!({ "type": "image", "mimeType": media_type, "data": data }))
        }
        Block::Image(_) => Some(text("[an image, which this agent does not take]")),
        Block::Document(Document { media_type, name, data }) if takes.embedded_context => {
            let uri = format!("attachment:///{}", name.as_deref().unwrap_or("document"));
            let resource = json!({ "uri": uri, "mimeType": media_type, "blob": data });
            Some(json!({ "type": "resource", "resource": resource }))
        }
        Block::Document(_) => Some(text("[a document, which this agent does not take]")),
        Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Thinking(_)
        | Block::Compaction(_)
        | Block::Provider(_) => None,
    }
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// The end of the conversation so far, for an agent that was not there; nothing where nobody answered yet.
pub(crate) fn handed_over(history: &[Arc<Message>]) -> Option<String> {
    let last = history.iter().rposition(|message| message.role == Role::Assistant)?;
    let before = history.get(..=last)?;
    let mut parts = Vec::new();
    let mut left = MAX_HANDED_OVER_BYTES;
    for message in before.iter().rev() {
        let is_context = message.injected_by.as_deref() == Some(QUERY_CONTEXT);
        let said = message.content.iter().filter(|block| !is_dynamic_context(block));
        let said = said.filter_map(Block::as_text).collect::<Vec<_>>().join("\n");
        if is_context || said.trim().is_empty() {
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
        let history = history();
        let session = AcpSession::new("s".to_owned(), Arc::default(), false);
        let new = new_messages(&history, Some(&session));
        let takes = PromptCapabilities::default();
        assert_eq!(prompt(&new, None, &takes), [text("second")]);
        session.note_delivered(new.iter().filter_map(|message| message.id.clone()));
        assert!(new_messages(&history, Some(&session)).is_empty());
        assert_eq!(prompt(&[], None, &takes), [text(GO_ON)]);
    }

    #[test]
    fn a_new_session_is_told_what_was_said_before() {
        let told = handed_over(&history()).unwrap();
        assert!(told.contains("Person: first\n\nAgent: answer") && !told.contains("second"), "{told}");
        assert_eq!(handed_over(&history()[..2]), None);
        let long: Vec<_> = (0..50)
            .map(|n| Message::assistant(vec![Block::text(format!("{n} {}", "x".repeat(1000)))]).shared())
            .collect();
        let told = handed_over(&long).unwrap();
        assert!(
            told.len() < MAX_HANDED_OVER_BYTES + 500 && told.contains("left out") && told.contains("49 x")
        );
    }

    #[test]
    fn images_go_to_agents_that_take_them() {
        let image = Message::user(vec![Block::Image(Image::new("image/png", "AAAA"))]).shared();
        let with = PromptCapabilities { image: true, ..PromptCapabilities::default() };
        assert_eq!(prompt(&[&image], None, &with)[0]["mimeType"], "image/png");
        assert!(prompt(&[&image], None, &PromptCapabilities::default())[0]["text"].is_string());
    }
}
