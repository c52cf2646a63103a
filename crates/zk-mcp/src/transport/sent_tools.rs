use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Names of the tools in list responses: the library leaves out some of those tools without notice.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentTools(Arc<Mutex<BTreeSet<String>>>);

impl SentTools {
    #[cfg(feature = "http")]
    pub(crate) fn record(&self, names: impl IntoIterator<Item = String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
