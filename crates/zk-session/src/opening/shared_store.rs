use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::model::SessionId;
use zk_core::service::{
    EngineName, Entry, EntryVisitor, Lease, LiveEntries, Mail, NewSession, OpenSession, Relay, SessionFilter,
    SessionInfo, SessionScan, SessionSnapshot, SessionStore, StoreError,
};

/// Store that several conversations share.
///
/// ```
/// use std::sync::Arc;
/// use zk_session::{MemoryStore, SessionPlace, SharedStore};
///
/// let store = SharedStore::new(Arc::new(MemoryStore::new()));
/// let place = SessionPlace { store: Some(store), saves: true, ..SessionPlace::default() };
/// assert!(place.store().is_ok());
/// ```
#[derive(Clone)]
pub struct SharedStore(Arc<dyn SessionStore>);

impl SharedStore {
    /// Wraps a store, so that several conversations can share it.
    #[must_use]
    pub fn new(store: Arc<dyn SessionStore>) -> Self {
        Self(store)
    }

    /// Returns the store itself.
    #[must_use]
    pub fn into_inner(self) -> Arc<dyn SessionStore> {
        self.0
    }
}

impl Deref for SharedStore {
    type Target = dyn SessionStore;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore").finish_non_exhaustive()
    }
}

#[async_trait]
impl SessionStore for SharedStore {
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.0.create(new).await
    }

    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.0.open(id).await
    }

    async fn open_leased(&self, id: &SessionId, lease: &Lease) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.0.open_leased(id, lease).await
    }

    async fn post_mail(&self, id: &SessionId, mail: &Mail) -> Result<(), StoreError> {
        self.0.post_mail(id, mail).await
    }

    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError> {
        self.0.read(id).await
    }

    async fn scan(&self, id: &SessionId, visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        self.0.scan(id, visit).await
    }

    async fn scan_tree(&self, id: &SessionId, visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        self.0.scan_tree(id, visit).await
    }

    async fn read_live(&self, id: &SessionId) -> Result<LiveEntries, StoreError> {
        self.0.read_live(id).await
    }

    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.0.last_entries(id, most).await
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        self.0.list(filter).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.0.delete(id).await
    }

    async fn restore(&self, new: NewSession, entries: Vec<Entry>) -> Result<SessionId, StoreError> {
        self.0.restore(new, entries).await
    }

    async fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        self.0.rename(id, title).await
    }

    fn relay(&self) -> Option<Arc<dyn Relay>> {
        self.0.relay()
    }

    fn of_tenant(&self, tenant: &EngineName) -> Option<Arc<dyn SessionStore>> {
        self.0.of_tenant(tenant)
    }

    async fn set_tenant(&self, id: &SessionId, tenant: &EngineName) -> Result<(), StoreError> {
        self.0.set_tenant(id, tenant).await
    }

    fn drafts(&self) -> Option<Arc<dyn SessionStore>> {
        self.0.drafts()
    }

    async fn publish(&self, id: &SessionId) -> Result<(), StoreError> {
        self.0.publish(id).await
    }
}
