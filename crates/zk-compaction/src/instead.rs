use std::collections::HashMap;
use std::sync::Arc;

use zk_core::model::{Block, Message, ToolContent, output_bytes};

/// What stands in for a result that was left out.
pub(crate) const STUB: &str =
    "[This result was left out to save context. Run the call again if you need it.]";

/// What is sent instead of stored messages.
///
/// By the address of the stored one, which the entry keeps alive: a message always becomes the same bytes.
#[derive(Default)]
pub(crate) struct Instead(HashMap<usize, (Arc<Message>, Arc<Message>)>);

impl Instead {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn replaces(&self, stored: &Arc<Message>) -> bool {
        self.0.contains_key(&address(stored))
    }

    /// What is sent for a stored message.
    pub(crate) fn sent<'a>(&'a self, stored: &'a Arc<Message>) -> &'a Arc<Message> {
        self.0.get(&address(stored)).map_or(stored, |(_, sent)| sent)
    }

    /// What is sent for a history.
    pub(crate) fn of(&self, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
        messages.iter().map(|message| self.sent(message).clone()).collect()
    }

    /// Leaves the results in a message out. Gives how many they are.
    pub(crate) fn stub(&mut self, stored: &Arc<Message>) -> usize {
        self.change(stored, |content| {
            let saves = output_bytes(content) > STUB.len();
            if saves {
                *content = STUB.into();
            }
            saves
        })
    }

    /// Leaves out the middle of results whose text is longer than `bytes`. Gives how many they are.
    pub(crate) fn clip(&mut self, stored: &Arc<Message>, bytes: usize) -> usize {
        self.change(stored, |content| match content {
            ToolContent::Text(text) => clip(text, bytes),
            ToolContent::Blocks(blocks) => blocks.iter_mut().fold(false, |clipped, block| match block {
                Block::Text(text) => clip(&mut text.text, bytes) || clipped,
                Block::Image(_)
                | Block::Document(_)
                | Block::ToolCall(_)
                | Block::ToolResult(_)
                | Block::Thinking(_)
                | Block::Compaction(_)
                | Block::Provider(_) => clipped,
            }),
        })
    }

    /// Changes results in what is sent for a message. Gives how many `change` changed.
    fn change(&mut self, stored: &Arc<Message>, change: impl Fn(&mut ToolContent) -> bool) -> usize {
        let mut message = Message::clone(self.sent(stored));
        let mut changed = 0;
        for block in &mut message.content {
            if let Block::ToolResult(result) = block {
                changed += usize::from(change(&mut result.content));
            }
        }
        if changed > 0 {
            self.0.insert(address(stored), (stored.clone(), message.shared()));
        }
        changed
    }
}

/// Leaves out the middle of a text that is longer than `bytes`. Gives whether it was.
fn clip(text: &mut String, bytes: usize) -> bool {
    if text.len() <= bytes {
        return false;
    }
    let (head, tail) =
        (text.floor_char_boundary(bytes / 3 * 2), text.ceil_char_boundary(text.len() - bytes / 3));
    let left_out = tail.saturating_sub(head);
    text.replace_range(head..tail, &format!("\n[… {left_out} bytes were left out to save context …]\n"));
    true
}

pub(crate) fn result_bytes(message: &Message) -> usize {
    message.results().map(|result| output_bytes(&result.content)).sum()
}

fn address(message: &Arc<Message>) -> usize {
    Arc::as_ptr(message).addr()
}
