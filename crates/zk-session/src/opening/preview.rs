use zk_core::model::SessionId;
use zk_core::service::{Entry, EntryKind, SessionStore};

/// Numbers of last entries that are searched for the start of the last run, in two attempts: most runs are
/// short.
const LAST_ENTRIES: [usize; 2] = [32, 400];

/// Entries of a session's last run, read without the rest, to be shown before the session is completely
/// loaded. Empty if the run's start is not among the last entries, or the session cannot be read.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_session::{MemoryStore, last_run};
///
/// assert!(last_run(&MemoryStore::new(), &"s_none".into()).await.is_empty());
/// # });
/// ```
pub async fn last_run(store: &dyn SessionStore, id: &SessionId) -> Vec<Entry> {
    for most in LAST_ENTRIES {
        let mut entries = store.last_entries(id, most).await.unwrap_or_default();
        let begin = entries.iter().rposition(|entry| matches!(entry.kind, EntryKind::RunStart { .. }));
        if let Some(begin) = begin {
            return entries.split_off(begin);
        }
    }
    Vec::new()
}
