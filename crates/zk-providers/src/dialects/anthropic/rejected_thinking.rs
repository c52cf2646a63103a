//! Thinking that the provider does not take back. It is bound to everything that stood before it, so a history
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

/// The blocks that were refused, so that none is sent a second time.
#[derive(Debug, Default)]
pub(super) struct Refused(Mutex<HashSet<u64>>);

impl Refused {
    /// The history without the blocks that were refused.
    pub(super) fn left_out(&self, history: WireReady) -> WireReady {
        let refused = self.known();
        if refused.is_empty() {
            return history;
        }
        history.without_thinking(|thinking| refused.contains(&mark(thinking)))
    }

    /// Notes all thinking of a history. Nobody says which of it was right: what stands behind a block that is left
    /// out is bound to it. Gives whether there was any.
    pub(super) fn note(&self, history: &WireReady) -> bool {
        let blocks = history.messages().iter().flat_map(|message| &message.content);
        let marks: Vec<u64> = blocks.filter_map(Block::as_thinking).map(mark).collect();
        let any = !marks.is_empty();
        self.known().extend(marks);
        any
    }

    fn known(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What tells a block from all others, in a few bytes.
fn mark(thinking: &Thinking) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&thinking.signature, &thinking.redacted).hash(&mut hasher);
    hasher.finish()
}
