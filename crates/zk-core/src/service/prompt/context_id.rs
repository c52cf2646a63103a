use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Identity of a model's context in one conversation: `cx.service::<ContextId>()`. Absent outside of a run.
///
/// Each agent and sub-agent has its own, and gets a new one when its conversation is reset. Plugins use it as
/// the key for records of content that the model has been shown.
///
/// ```
/// use zk_core::service::ContextId;
///
/// assert_ne!(ContextId::fresh(), ContextId::fresh());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContextId(u64);

impl ContextId {
    /// Creates an id that is unique within the process.
    #[must_use]
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Context whose reads of files count as those of a sub-agent too: `cx.service::<SharedReads>()`. Absent for an
/// agent that has to read a file itself before it changes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedReads(pub ContextId);

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "context-{}", self.0)
    }
}
