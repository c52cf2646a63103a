use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::model::SessionId;
use zk_core::service::{
    EntryVisitor, NewSession, OpenSession, SessionFilter, SessionInfo, SessionScan, SessionSnapshot,
    SessionStore, StoreError,
};
use zk_session::MemoryStore;

/// Store whose disk fails after the first `entries` of session `id` were visited.
pub(in crate::commands) struct BreakingStore {
    pub(in crate::commands) inner: MemoryStore,
    pub(in crate::commands) id: SessionId,
    pub(in crate::commands) entries: usize,
}

#[async_trait]
impl SessionStore for BreakingStore {
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.inner.create(new).await
    }

    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.inner.open(id).await
    }

    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError> {
        self.inner.read(id).await
    }

    async fn scan(&self, id: &SessionId, mut visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        if *id != self.id {
            return self.inner.scan(id, visit).await;
        }
        let mut left = self.entries;
        let until_broken: EntryVisitor = Box::new(move |entry, bytes| {
            let Some(less) = left.checked_sub(1) else { return ControlFlow::Break(()) };
            left = less;
            visit(entry, bytes)
        });
        self.inner.scan(id, until_broken).await?;
        let source = io::Error::other("disk I/O error");
        Err(StoreError::Io { doing: "read", path: format!("/sessions/{id}.db").into(), source })
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        self.inner.list(filter).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }
}
