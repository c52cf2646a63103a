use std::sync::{Arc, Mutex, PoisonError};

/// Loss of the sandbox during a conversation, as a service of the host: from then on each command asks to run outside, until
/// the host finds that the sandbox can be set up again.
///
/// ```
/// let lost = zk_tools::LostSandbox::default();
/// assert!(lost.report("namespaces are refused") && !lost.report("again"));
/// assert_eq!(lost.reason().as_deref(), Some("namespaces are refused"));
/// assert!(lost.clear() && lost.reason().is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct LostSandbox(Arc<Mutex<Option<String>>>);

impl LostSandbox {
    /// Keeps the reason of the first loss; whether it is the first.
    #[must_use]
    pub fn report(&self, reason: &str) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = known.is_none();
        known.get_or_insert_with(|| reason.to_owned());
        is_first
    }

    /// Forgets a loss, once the sandbox is set up again; whether there was one.
    pub fn clear(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    /// Reason for which the sandbox can no longer be set up; `None` while it can.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
