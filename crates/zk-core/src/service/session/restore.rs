use std::collections::HashMap;
use std::ops::ControlFlow;

use super::{Durability, Entry, EntryKind, NewSession, OpenSession, SessionStore, StoreError};
use crate::model::{EntryId, SessionId};

/// Creates a session with the entries of another one under new ids, and removes what was stored when that fails.
pub(super) async fn restore_by_appending<S: SessionStore + ?Sized>(
    store: &S,
    new: NewSession,
    entries: Vec<Entry>,
) -> Result<SessionId, StoreError> {
    if let Some(id) = &new.id {
        // A failure removes the session, which has to be of this call.
        match store.scan(id, Box::new(|_, _| ControlFlow::Break(()))).await {
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
            Ok(_) => {
                return Err(StoreError::Failed(format!(
                    "session `{id}` exists already; open it, or choose another id"
                )));
            }
        }
    }
    let open = store.create(new).await?;
    let id = open.id().clone();
    let stored = append_all(&*open, entries).await;
    let closed = open.close().await;
    drop(open);
    match stored.and(closed) {
        Ok(()) => Ok(id),
        Err(error) => {
            // A session with a part of the entries must not stay.
            let _ = store.delete(&id).await;
            Err(error)
        }
    }
}

/// Appends the entries of another session under new ids.
async fn append_all(open: &dyn OpenSession, entries: Vec<Entry>) -> Result<(), StoreError> {
    let mut ids = HashMap::<EntryId, EntryId>::new();
    let mut section = Vec::new();
    let mut entries = entries.into_iter().peekable();
    while let Some(entry) = entries.next() {
        section.push(entry);
        // Entries before a move of the leaf are appended first, because such a move has to begin an append.
        if entries.peek().is_some_and(|next| !matches!(next.kind, EntryKind::Leaf { .. })) {
            continue;
        }
        let own = std::mem::take(&mut section);
        let (old, kinds): (Vec<EntryId>, Vec<EntryKind>) =
            own.into_iter().map(|entry| (entry.id, entry.kind.with_entry_ids(&ids))).unzip();
        let new = open.append(kinds, Durability::Process).await?;
        ids.extend(old.into_iter().zip(new));
    }
    open.append(Vec::new(), Durability::Disk).await?;
    Ok(())
}
