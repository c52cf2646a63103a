//! Handles thinking blocks that the provider rejects. A block is bound to everything before it, so editing,
//! cutting or summarising the history invalidates it; it may also have been damaged.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use zk_core::model::{Block, ProviderError, Thinking, WireReady};

/// Names of errors about invalid thinking.
const NAMES: &[&str] = &["prefix_binding_mismatch"];
/// Phrases of errors about invalid thinking, in lower case and without quotes.
const PHRASES: &[&str] = &[
    "invalid signature in thinking block",
    "thinking blocks in the latest assistant message cannot be modified",
    "expected thinking or redacted_thinking, but found",
];

/// Whether a request failed because of a thinking block.
pub(super) fn is_about_thinking(error: &ProviderError) -> bool {
    let text = error.message.to_lowercase().replace('`', "");
    let is_named = error.code.as_deref().is_some_and(|code| NAMES.contains(&code));
    // Only an error status precedes any part of an answer.
    error.status == Some(400) && (is_named || PHRASES.iter().any(|phrase| text.contains(phrase)))
}

/// Digests of rejected blocks, which are not sent again.
#[derive(Debug, Default)]
pub(super) struct RejectedThinking(Mutex<HashSet<u64>>);

impl RejectedThinking {
    /// Removes rejected blocks from a history.
    pub(super) fn remove_from(&self, history: WireReady) -> WireReady {
        let rejected = self.digests();
        if rejected.is_empty() {
            return history;
        }
        history.without_thinking(|thinking| rejected.contains(&digest(thinking)))
    }

    /// Marks all thinking of a history as rejected: the error does not name the invalid block, and later
    /// blocks are bound to it. Returns whether the history has any thinking.
    pub(super) fn insert_all(&self, history: &WireReady) -> bool {
        let blocks = history.messages().iter().flat_map(|message| &message.content);
        let digests: Vec<u64> = blocks.filter_map(Block::as_thinking).map(digest).collect();
        let has_thinking = !digests.is_empty();
        self.digests().extend(digests);
        has_thinking
    }

    fn digests(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Computes the digest of a block from its signature.
fn digest(thinking: &Thinking) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&thinking.signature, &thinking.redacted).hash(&mut hasher);
    hasher.finish()
}
