use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Maximum number of texts that are known.
const MAX_TEXTS: usize = 16;

/// Prompts whose texts no person typed, although they are sent as prompts of the person: those that a command
/// made of a file or of a server's prompt, and piped input. `cx.service::<ExpandedPrompts>()`.
///
/// A front-end notes such a text before it sends it. Without the service, nobody needs to know.
///
/// ```
/// use zk_core::service::ExpandedPrompts;
///
/// let expanded = ExpandedPrompts::default();
/// expanded.note("Review the changes.");
/// assert!(expanded.has("Review the changes.") && !expanded.has("Hello"));
/// ```
#[derive(Debug, Default)]
pub struct ExpandedPrompts {
    texts: Mutex<VecDeque<String>>,
}

impl ExpandedPrompts {
    /// Notes a text that is about to be sent as a prompt.
    pub fn note(&self, text: &str) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() == MAX_TEXTS {
            texts.pop_front();
        }
        texts.push_back(text.trim().to_owned());
    }

    /// Whether a prompt is one of the last texts.
    #[must_use]
    pub fn has(&self, prompt: &str) -> bool {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.iter().any(|text| text == prompt.trim())
    }
}
