use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use zk_core::model::{Block, Message, ToolContent};

use crate::text::vocabulary::Vocabulary;

/// Tokens of a message beside its text: role, separators.
const MESSAGE_TOKENS: u64 = 4;

/// Counts the tokens of a text. An estimate: what a provider counts is right.
pub trait TokenCounter: Send + Sync + fmt::Debug {
    /// About how many tokens a model reads in `text`.
    fn count(&self, text: &str) -> u64;

    /// Another number says that the same text may be counted otherwise from now on.
    fn version(&self) -> u64 {
        0
    }
}

/// A token for every four bytes: costs nothing, and is right within a third for English and code.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteCounter;

impl TokenCounter for ByteCounter {
    fn count(&self, text: &str) -> u64 {
        (text.len() as u64).div_ceil(4)
    }
}

/// Tokenizer with the vocabulary o200k, loaded when it is first needed; until then, and without the feature
/// `tokenizer`, it counts as [`ByteCounter`] does. Clones share what is loaded.
///
/// The vocabulary is that of OpenAI's models. Others differ by a third at most, which the usage that a
/// provider reports corrects.
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
    /// Loads the vocabulary if nobody has: takes about a tenth of a second of computing, so call it on a thread that may
    /// block.
    pub fn load(&self) {
        self.inner.asked.store(true, Ordering::Release);
        if self.inner.loaded.get().is_none()
            && let Some(vocabulary) = Vocabulary::load()
        {
            // Somebody else may have been faster.
            let _ = self.inner.loaded.set(vocabulary);
        }
    }

    /// Loads the vocabulary and gives the counter.
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

    /// Loads it in the background, once.
    pub(crate) fn load_in_background(&self) {
        if !Vocabulary::EXISTS || self.inner.asked.swap(true, Ordering::AcqRel) {
            return;
        }
        let counter = self.clone();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || counter.load())),
            // Without a runtime nothing waits for anybody: it stays an estimate by bytes.
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

/// About how many tokens a message takes.
#[must_use]
pub fn count_message(message: &Message, counter: &dyn TokenCounter) -> u64 {
    MESSAGE_TOKENS + message.content.iter().map(|block| count_block(block, counter)).sum::<u64>()
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
