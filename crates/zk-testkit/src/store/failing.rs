use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use zk_core::model::{EntryId, MailId, SessionId};
use zk_core::service::{
    Durability, Entry, EntryKind, EntryVisitor, Lease, LiveEntries, Mail, NewSession, OpenSession, Relay,
    SessionFilter, SessionInfo, SessionScan, SessionSnapshot, SessionStore, StoreError,
};

/// Session store that is out of reach for a while: the legs of runs cannot open, read and append meanwhile. Everything else
/// goes to the store behind it.
///
/// ```
/// # use std::sync::Arc;
/// # use zk_core::service::{Lease, SessionStore, StoreError};
/// use zk_testkit::FailingStore;
///
/// # async fn lose(behind: Arc<dyn SessionStore>) {
/// let store = FailingStore::new(behind);
/// store.fail_during(0..1);
/// let opened = store.open_leased(&"s_1".into(), &Lease::new(1)).await;
/// assert!(matches!(opened, Err(StoreError::Failed(_))));
/// # }
/// ```
#[derive(Clone)]
pub struct FailingStore {
    behind: Arc<dyn SessionStore>,
    link: Arc<Link>,
}

/// Count of the uses of a store, and those that fail.
#[derive(Default)]
struct Link {
    uses: AtomicUsize,
    failing: Mutex<Range<usize>>,
}

impl Link {
    fn pass(&self) -> Result<(), StoreError> {
        let number = self.uses.fetch_add(1, Ordering::SeqCst);
        match self.failing.lock().unwrap_or_else(PoisonError::into_inner).contains(&number) {
            true => Err(StoreError::Failed("the store is out of reach".to_owned())),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for FailingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailingStore").field("uses", &self.uses()).finish_non_exhaustive()
    }
}

impl FailingStore {
    /// Creates a store in front of `behind` that does not fail yet.
    #[must_use]
    pub fn new(behind: Arc<dyn SessionStore>) -> Self {
        Self { behind, link: Arc::default() }
    }

    /// Returns the number of uses by legs so far: sessions opened, read and appended to, and mail looked for.
    #[must_use]
    pub fn uses(&self) -> usize {
        self.link.uses.load(Ordering::SeqCst)
    }

    /// Fails the uses with these numbers, from 0.
    pub fn fail_during(&self, uses: Range<usize>) {
        *self.link.failing.lock().unwrap_or_else(PoisonError::into_inner) = uses;
    }
}

#[async_trait]
impl SessionStore for FailingStore {
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.behind.create(new).await
    }

    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.behind.open(id).await
    }

    async fn open_leased(&self, id: &SessionId, lease: &Lease) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.link.pass()?;
        let behind = self.behind.open_leased(id, lease).await?;
        Ok(Arc::new(FailingSession { behind, link: self.link.clone() }))
    }

    async fn post_mail(&self, id: &SessionId, mail: &Mail) -> Result<(), StoreError> {
        self.behind.post_mail(id, mail).await
    }

    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError> {
        self.behind.read(id).await
    }

    async fn scan(&self, id: &SessionId, visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        self.behind.scan(id, visit).await
    }

    async fn scan_tree(&self, id: &SessionId, visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        self.behind.scan_tree(id, visit).await
    }

    async fn read_live(&self, id: &SessionId) -> Result<LiveEntries, StoreError> {
        self.behind.read_live(id).await
    }

    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.behind.last_entries(id, most).await
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        self.behind.list(filter).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.behind.delete(id).await
    }

    async fn restore(&self, new: NewSession, entries: Vec<Entry>) -> Result<SessionId, StoreError> {
        self.behind.restore(new, entries).await
    }

    async fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        self.behind.rename(id, title).await
    }

    fn drafts(&self) -> Option<Arc<dyn SessionStore>> {
        self.behind.drafts()
    }

    fn relay(&self) -> Option<Arc<dyn Relay>> {
        self.behind.relay()
    }

    async fn publish(&self, id: &SessionId) -> Result<(), StoreError> {
        self.behind.publish(id).await
    }
}

/// Session of a leg.
struct FailingSession {
    behind: Arc<dyn OpenSession>,
    link: Arc<Link>,
}

#[async_trait]
impl OpenSession for FailingSession {
    fn id(&self) -> &SessionId {
        self.behind.id()
    }

    fn cwd(&self) -> Option<PathBuf> {
        self.behind.cwd()
    }

    fn notices(&self) -> Vec<String> {
        self.behind.notices()
    }

    fn prepare(&self) {
        self.behind.prepare();
    }

    fn note_branch(&self, branch: String) {
        self.behind.note_branch(branch);
    }

    async fn append(
        &self,
        entries: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        self.link.pass()?;
        self.behind.append(entries, durability).await
    }

    async fn append_taking(
        &self,
        entries: Vec<EntryKind>,
        mail: Vec<MailId>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        self.link.pass()?;
        self.behind.append_taking(entries, mail, durability).await
    }

    async fn mail(&self) -> Result<Vec<Mail>, StoreError> {
        self.link.pass()?;
        self.behind.mail().await
    }

    async fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.link.pass()?;
        self.behind.entries().await
    }

    async fn live(&self) -> Result<LiveEntries, StoreError> {
        self.link.pass()?;
        self.behind.live().await
    }

    async fn scan(&self, visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        self.behind.scan(visit).await
    }

    async fn scan_tree(&self, visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        self.behind.scan_tree(visit).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.behind.close().await
    }
}
