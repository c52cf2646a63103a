use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Maximum number of prompt texts that are kept, more than wait in the queue of a run.
const MAX_TEXTS: usize = 256;

/// Prompts that no person typed, although they are sent as a person's: expanded commands, prompts of MCP
/// servers, and piped input. `cx.service::<ExpandedPrompts>()`.
///
/// A front-end records such a prompt before it sends it. Hosts that need no distinction do not provide the
/// service.
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
    /// Records a text that is about to be sent as a prompt.
    pub fn note(&self, text: &str) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() == MAX_TEXTS {
            texts.pop_front();
        }
        texts.push_back(text.trim().to_owned());
    }

    /// Whether `prompt` equals one of the recorded texts.
    #[must_use]
    pub fn has(&self, prompt: &str) -> bool {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.iter().any(|text| text == prompt.trim())
    }
}
