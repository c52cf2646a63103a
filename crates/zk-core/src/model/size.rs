use std::io;
use std::sync::Arc;

use serde_json::Value;

use super::{Block, Message, ToolContent};

/// Estimated context size of an image, as the number of bytes of text that use about as many tokens.
const IMAGE_BYTES: usize = 4800;

/// Estimates the share of a context window that these messages take, in bytes of text; a token is three to
/// four bytes. An image counts 4800 bytes, whatever its size.
///
/// ```
/// use zk_core::model::{Message, context_size};
///
/// let history = [Message::user_text("hello").shared(), Message::user_text("again").shared()];
/// assert_eq!(context_size(&history), 10);
/// ```
#[must_use]
pub fn context_size(messages: &[Arc<Message>]) -> usize {
    messages.iter().map(|message| message.size()).sum()
}

impl Message {
    /// Estimated size of the message in a context window, as by [`context_size`].
    #[must_use]
    pub fn size(&self) -> usize {
        self.content.iter().map(Block::size).sum()
    }
}

impl Block {
    /// Estimated size of the block in a context window, as by [`context_size`].
    #[must_use]
    pub fn size(&self) -> usize {
        size(self)
    }
}

fn size(block: &Block) -> usize {
    match block {
        Block::Text(text) => text.text.len(),
        Block::Image(_) => IMAGE_BYTES,
        Block::Document(document) => document.data.len(),
        Block::ToolCall(call) => {
            let args = call.malformed.as_ref().map_or_else(|| json_bytes(&call.args), String::len);
            call.name.len() + args
        }
        Block::ToolResult(result) => match &result.content {
            ToolContent::Text(text) => text.len(),
            ToolContent::Blocks(blocks) => blocks.iter().map(size).sum(),
        },
        Block::Thinking(thinking) => thinking.text.len(),
        Block::Compaction(compaction) => compaction.summary.len(),
        Block::Provider(block) => json_bytes(&block.wire.data),
    }
}

/// Counts the bytes of a value as compact JSON, without building the text.
fn json_bytes(value: &Value) -> usize {
    struct Counted(usize);
    impl io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(0);
    match serde_json::to_writer(&mut counted, value) {
        Ok(()) => counted.0,
        // Writing a `Value` to a counter cannot fail.
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{Image, ModelRef, ToolCall};

    #[test]
    fn every_kind_of_block_counts_the_content_that_the_model_reads() {
        let image = || Block::Image(Image::new("image/png", "A".repeat(100_000)));
        let origin = ModelRef::new("p", "m");
        for (block, expected) in [
            (Block::text("four"), 4),
            (image(), 4800),
            (Block::ToolCall(ToolCall::new("c1", "ls", json!({"a": 1}))), 2 + 7),
            (
                Block::ToolCall(ToolCall {
                    malformed: Some("{\"a".into()),
                    ..ToolCall::new("c1", "ls", json!({}))
                }),
                2 + 3,
            ),
            (Block::result("c1", "12345", false), 5),
            (Block::result("c1", ToolContent::Blocks(vec![Block::text("123"), image()]), false), 4803),
            (Block::provider("a search", &origin, json!([1, 2])), 5),
        ] {
            assert_eq!(Message::user(vec![block.clone()]).size(), expected, "{block:?}");
        }
    }
}
