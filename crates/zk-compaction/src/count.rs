use std::fmt;

use zk_core::model::{Block, Message, ToolContent};

/// What a message takes beside its text: role, separators.
const MESSAGE: u64 = 4;

/// Counts the tokens of a text. An estimate: what a provider counts is right.
pub trait TokenCounter: Send + Sync + fmt::Debug {
    /// About how many tokens a model reads in `text`.
    fn count(&self, text: &str) -> u64;
}

/// A token for every four bytes: costs nothing, and is right within a third for English and code.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteCounter;

impl TokenCounter for ByteCounter {
    fn count(&self, text: &str) -> u64 {
        (text.len() as u64).div_ceil(4)
    }
}

/// About how many tokens a message takes.
#[must_use]
pub fn count_message(message: &Message, counter: &dyn TokenCounter) -> u64 {
    MESSAGE + message.content.iter().map(|block| count_block(block, counter)).sum::<u64>()
}

/// About how many tokens a block takes. Arguments, images and what only a provider understands count by their size.
#[must_use]
pub fn count_block(block: &Block, counter: &dyn TokenCounter) -> u64 {
    match block {
        Block::Text(text) => counter.count(&text.text),
        Block::Thinking(thinking) => counter.count(&thinking.text),
        Block::Compaction(compaction) => counter.count(&compaction.summary),
        Block::ToolResult(result) => match &result.content {
            ToolContent::Text(text) => counter.count(text),
            ToolContent::Blocks(blocks) => blocks.iter().map(|block| count_block(block, counter)).sum(),
        },
        Block::Image(_) | Block::Document(_) | Block::ToolCall(_) | Block::Provider(_) => {
            (block.size() as u64).div_ceil(4)
        }
    }
}
