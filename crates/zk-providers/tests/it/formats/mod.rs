//! Conversations of other programs, read and written.

mod chats;
mod hostile;
mod messages;
mod random;
mod refused;
mod written;

use serde_json::Value;
use zk_core::model::{Block, Message, ModelRef};
use zk_providers::formats::{Conversation, Format};

fn origin() -> ModelRef {
    ModelRef::new("maker", "model")
}

fn read(format: Format, messages: &Value) -> Conversation {
    let found = Format::detect(messages);
    assert!(found.is_none_or(|found| found == format), "taken for {found:?}: {messages}");
    format.read(messages, &origin()).expect("it can be read")
}

/// The blocks of the only message.
fn blocks(conversation: &Conversation) -> &[Block] {
    let [message] = conversation.messages.as_slice() else { panic!("not one: {:?}", conversation.messages) };
    &message.content
}

fn messages(conversation: &Conversation) -> Vec<&Message> {
    conversation.messages.iter().map(AsRef::as_ref).collect()
}
