use zk_core::model::SessionId;
use zk_core::service::{Entry, EntryKind, SessionStore};

/// Last entries of a session that are looked through for the beginning of its last run: most runs are short.
const LAST_ENTRIES: [usize; 2] = [32, 400];

/// Entries of the last run of a session, read without the rest of it: what can be shown before all is read and checked.
/// Nothing of a session without a run's beginning among its last entries, or of one that cannot be read.
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
