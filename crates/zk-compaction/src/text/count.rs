use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use zk_core::model::{Block, Message, ToolContent};

use crate::text::vocabulary::Vocabulary;

/// Tokens of a message besides its text: role and separators.
const MESSAGE_TOKENS: u64 = 4;

/// Estimates the tokens of a text; the usage that a provider reports is more exact.
pub trait TokenCounter: Send + Sync + fmt::Debug {
    /// Approximate number of tokens of `text`.
    fn count(&self, text: &str) -> u64;

    /// Version of the counts: changes when the count of a text may change.
    fn version(&self) -> u64 {
        0
    }
}

/// Counts one token for every four bytes: free, and within a third of the truth for English and code.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteCounter;

impl TokenCounter for ByteCounter {
    fn count(&self, text: &str) -> u64 {
        (text.len() as u64).div_ceil(4)
    }
}

/// Tokenizer with the vocabulary o200k, which is loaded on demand. Until then, and without the feature
/// `tokenizer`, it counts as [`ByteCounter`] does. Clones share the vocabulary.
///
/// The vocabulary is that of OpenAI's models. Other models differ by up to a third, which the provider's
/// reported usage corrects.
#[derive(Clone, Default)]
pub struct LazyCounter {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    asked: AtomicBool,
    loaded: OnceLock<Vocabulary>,
}

impl LazyCounter {
    /// Loads the vocabulary, unless it is loaded. Takes about a tenth of a second of CPU time, so call it on
    /// a thread that may block.
    pub fn load(&self) {
        self.inner.asked.store(true, Ordering::Release);
        if self.inner.loaded.get().is_none()
            && let Some(vocabulary) = Vocabulary::load()
        {
            // Another thread may have been faster.
            let _ = self.inner.loaded.set(vocabulary);
        }
    }

    /// Loads the vocabulary and returns the counter.
    #[must_use]
    pub fn loaded(self) -> Self {
        self.load();
        self
    }

    /// Whether the vocabulary is loaded.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.inner.loaded.get().is_some()
    }

    /// Loads the vocabulary in the background, once.
    pub(crate) fn load_in_background(&self) {
        if !Vocabulary::EXISTS || self.inner.asked.swap(true, Ordering::AcqRel) {
            return;
        }
        let counter = self.clone();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || counter.load())),
            // Without a runtime there is no background: counts stay estimates by bytes.
            Err(_) => self.inner.asked.store(false, Ordering::Release),
        }
    }
}

impl fmt::Debug for LazyCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyCounter").field("is_loaded", &self.is_loaded()).finish()
    }
}

impl TokenCounter for LazyCounter {
    fn count(&self, text: &str) -> u64 {
        match self.inner.loaded.get() {
            Some(vocabulary) => vocabulary.count(text),
            None => ByteCounter.count(text),
        }
    }

    fn version(&self) -> u64 {
        u64::from(self.is_loaded())
    }
}

/// Approximate number of tokens of a message.
#[must_use]
pub fn count_message(message: &Message, counter: &dyn TokenCounter) -> u64 {
    MESSAGE_TOKENS + message.content.iter().map(|block| count_block(block, counter)).sum::<u64>()
}

/// Approximate number of tokens of a block. Arguments, images and provider-specific data count by their size.
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

#[cfg(all(test, feature = "tokenizer"))]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_o200k_once_the_vocabulary_is_loaded() {
        let counter = LazyCounter::default();
        assert_eq!((counter.count("hello world"), counter.version()), (3, 0), "by bytes until then");
        counter.load();
        assert_eq!(counter.version(), 1);
        let texts = [
            "",
            "hello world",
            "fn main() {\n    println!(\"{}\", 1 + 2);\n}\n",
            "Überraschung: 你好，世界",
            r#"{"path": "src/main.rs", "line": 1234}"#,
            "<|endoftext|>",
        ];
        assert_eq!(texts.map(|text| counter.count(text)), [0, 2, 14, 8, 15, 7]);
    }
}
