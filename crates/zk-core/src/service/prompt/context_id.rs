use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Identity of what a model has before it in one conversation: `cx.service::<ContextId>()`. Absent outside a run.
///
/// Every agent has its own, sub-agents too, and another one once the conversation was reset: whatever is
/// remembered of what the model was shown is remembered under this.
///
/// ```
/// use zk_core::service::ContextId;
///
/// assert_ne!(ContextId::fresh(), ContextId::fresh());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContextId(u64);

impl ContextId {
    /// An id that no other context of this process has.
    #[must_use]
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "context-{}", self.0)
    }
}
