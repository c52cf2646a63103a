use zk_core::model::{Block, Message, ToolResult};

use super::Conversation;

/// Source that is recorded for an instruction within a conversation.
const SYSTEM: &str = "system";

/// Conversation under construction.
#[derive(Default)]
pub(super) struct Draft {
    system: Vec<String>,
    messages: Vec<Message>,
    /// Whether the last message has only results, so that further results join it.
    takes_results: bool,
}

impl Draft {
    /// Adds an instruction: to the system prompt if no message came before.
    pub(super) fn add_instruction(&mut self, text: String) {
        if text.trim().is_empty() {
            return;
        }
        if self.messages.is_empty() {
            self.system.push(text);
        } else {
            self.push(Message::injected(text, SYSTEM));
        }
    }

    pub(super) fn push(&mut self, message: Message) {
        self.takes_results = false;
        self.messages.push(message);
    }

    /// Adds a result that arrived as a separate message.
    pub(super) fn add_result(&mut self, result: ToolResult) {
        match self.messages.last_mut().filter(|_| self.takes_results) {
            Some(last) => last.content.push(Block::ToolResult(result)),
            None => self.push(Message::user(vec![Block::ToolResult(result)])),
        }
        self.takes_results = true;
    }

    pub(super) fn finish(self) -> Conversation {
        Conversation {
            system: self.system.join("\n\n"),
            messages: self.messages.into_iter().map(Message::shared).collect(),
        }
    }
}
