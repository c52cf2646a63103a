//! Thinking that the provider rejects. It is bound to everything that stood before it, so a history
//! that was edited, cut or put into a summary makes it void; and it may have been damaged on its way.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use zk_core::model::{Block, ProviderError, Thinking, WireReady};

/// The names of errors that say so.
const NAMES: &[&str] = &["prefix_binding_mismatch"];
/// The phrases that do, in lower case and without the quotes.
const PHRASES: &[&str] = &[
    "invalid signature in thinking block",
    "thinking blocks in the latest assistant message cannot be modified",
    "expected thinking or redacted_thinking, but found",
];

/// Whether a request failed because of the thinking in it.
pub(super) fn is_about_thinking(error: &ProviderError) -> bool {
    let text = error.message.to_lowercase().replace('`', "");
    let is_named = error.code.as_deref().is_some_and(|code| NAMES.contains(&code));
    // Only a status comes before anything of an answer.
    error.status == Some(400) && (is_named || PHRASES.iter().any(|phrase| text.contains(phrase)))
}

/// Digests of the rejected blocks, so that none is sent a second time.
#[derive(Debug, Default)]
pub(super) struct RejectedThinking(Mutex<HashSet<u64>>);

impl RejectedThinking {
    /// Removes the rejected blocks from a history.
    pub(super) fn remove_from(&self, history: WireReady) -> WireReady {
        let rejected = self.digests();
        if rejected.is_empty() {
            return history;
        }
        history.without_thinking(|thinking| rejected.contains(&digest(thinking)))
    }

    /// Adds all thinking of a history: the error does not say which block was wrong, and what stands behind a
    /// block that is left out is bound to it. Returns whether there was any.
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

/// Digest of a block by its signature.
fn digest(thinking: &Thinking) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&thinking.signature, &thinking.redacted).hash(&mut hasher);
    hasher.finish()
}
