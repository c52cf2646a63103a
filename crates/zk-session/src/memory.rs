use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use zk_core::model::{EntryId, MailId, SessionId};
use zk_core::service::{
    Clock, Durability, Entry, EntryKind, EntryVisitor, Lease, Lock, Mail, NewSession, OpenSession, Relay,
    SessionFilter, SessionInfo, SessionScan, SessionSnapshot, SessionStore, StoreError, SystemClock,
    check_leaf, count_branches, present_branch,
};

use crate::digest::{Digest, title as title_line};
use crate::find::near_match;
use crate::relay::MemoryRelay;

/// Sessions that live as long as the store: for embedders without a disk, and for tests.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_core::service::{NewSession, SessionStore};
/// use zk_session::MemoryStore;
///
/// let store = MemoryStore::new();
/// let session = store.create(NewSession { id: None, cwd: "/project".into(), parent: None }).await.unwrap();
/// assert!(session.entries().await.unwrap().is_empty());
/// # });
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    shelf: Shelf,
    clock: Arc<dyn Clock>,
    relay: MemoryRelay,
}

type Shelf = Arc<Mutex<HashMap<SessionId, Stored>>>;

/// Stored session; it has at least one entry.
struct Stored {
    parent: Option<SessionId>,
    cwd: PathBuf,
    created: SystemTime,
    digest: Digest,
    /// Title that a person gave the session.
    name: Option<String>,
    branch: Option<String>,
    entries: Vec<Entry>,
    open: bool,
    /// Greatest lease token under which the session was opened.
    token: u64,
    /// Number of open handles that have a lease.
    leased: usize,
    mail: Vec<Mail>,
    /// Ids of mail that a run has taken, which is not accepted again.
    taken: BTreeSet<MailId>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("sessions", &lock(&self.shelf).len()).finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self { shelf: Shelf::default(), clock: Arc::new(SystemClock), relay: MemoryRelay::new() }
    }

    /// Sets the clock that dates entries.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        let id = new.id.unwrap_or_else(SessionId::fresh);
        Ok(Arc::new(MemorySession::new(self, id, new.parent, new.cwd, false)))
    }

    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        let mut shelf = lock(&self.shelf);
        let stored = find_mut(&mut shelf, id)?;
        if stored.is_open() {
            return Err(StoreError::InUse { id: id.clone(), pid: std::process::id() });
        }
        stored.open = true;
        Ok(Arc::new(MemorySession::new(self, id.clone(), stored.parent.clone(), stored.cwd.clone(), true)))
    }

    async fn open_leased(&self, id: &SessionId, lease: &Lease) -> Result<Arc<dyn OpenSession>, StoreError> {
        let mut shelf = lock(&self.shelf);
        let stored = find_mut(&mut shelf, id)?;
        if stored.open {
            return Err(StoreError::InUse { id: id.clone(), pid: std::process::id() });
        }
        if lease.token() < stored.token {
            return Err(StoreError::Fenced { id: id.clone() });
        }
        stored.token = lease.token();
        stored.leased += 1;
        let (parent, cwd) = (stored.parent.clone(), stored.cwd.clone());
        let mut session = MemorySession::new(self, id.clone(), parent, cwd, true);
        session.token = Some(lease.token());
        Ok(Arc::new(session))
    }

    async fn post_mail(&self, id: &SessionId, mail: &Mail) -> Result<(), StoreError> {
        mail.to_json()?;
        let mut shelf = lock(&self.shelf);
        let stored = find_mut(&mut shelf, id)?;
        if stored.taken.contains(&mail.id) || stored.mail.iter().any(|own| own.id == mail.id) {
            return Err(StoreError::PostedBefore { id: id.clone(), mail: mail.id.clone() });
        }
        stored.mail.push(mail.clone());
        Ok(())
    }

    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError> {
        let shelf = lock(&self.shelf);
        let Some(stored) = shelf.get(id) else {
            let hint = near_match(id.as_str(), shelf.keys().map(ToString::to_string));
            return Err(StoreError::NotFound { id: id.to_string(), hint });
        };
        let entries = present_branch(stored.entries.clone());
        Ok(SessionSnapshot { info: stored.info(id), entries, notices: Vec::new() })
    }

    async fn scan_tree(&self, id: &SessionId, mut visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        let (info, entries) = {
            let shelf = lock(&self.shelf);
            let Some(stored) = shelf.get(id) else {
                let hint = near_match(id.as_str(), shelf.keys().map(ToString::to_string));
                return Err(StoreError::NotFound { id: id.to_string(), hint });
            };
            (stored.info(id), stored.entries.clone())
        };
        visit_all(entries, &mut visit);
        Ok(SessionScan { info, notices: Vec::new() })
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        let shelf = lock(&self.shelf);
        let mut all: Vec<SessionInfo> = shelf
            .iter()
            .filter(|(_, stored)| filter.unanswered || stored.digest.answered)
            .filter(|(_, stored)| filter.cwd.as_deref().is_none_or(|cwd| same_dir(cwd, &stored.cwd)))
            .map(|(id, stored)| stored.info(id))
            .collect();
        all.sort_by(|a, b| (b.updated, &b.id).cmp(&(a.updated, &a.id)));
        all.truncate(filter.limit.unwrap_or(usize::MAX));
        Ok(all)
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let mut shelf = lock(&self.shelf);
        match shelf.get(id) {
            None => {
                let hint = near_match(id.as_str(), shelf.keys().map(ToString::to_string));
                Err(StoreError::NotFound { id: id.to_string(), hint })
            }
            Some(stored) if stored.is_open() => {
                Err(StoreError::InUse { id: id.clone(), pid: std::process::id() })
            }
            Some(_) => {
                shelf.remove(id);
                Ok(())
            }
        }
    }

    async fn restore(&self, new: NewSession, entries: Vec<Entry>) -> Result<SessionId, StoreError> {
        let id = new.id.unwrap_or_else(SessionId::fresh);
        let mut digest = Digest::default();
        let mut own: Vec<Entry> = Vec::with_capacity(entries.len());
        for entry in entries {
            let parent = match &entry.kind {
                EntryKind::Leaf { to, .. } => {
                    let contains = |wanted: &EntryId| own.iter().any(|at| at.id == *wanted);
                    check_leaf(&id, std::slice::from_ref(&entry.kind), contains)?;
                    to.clone()
                }
                _ => own.last().map(|last| last.id.clone()),
            };
            digest.add(&entry.kind);
            own.push(Entry { parent, ..entry });
        }
        let mut shelf = lock(&self.shelf);
        if shelf.contains_key(&id) {
            return Err(exists_error(&id));
        }
        let created = own.first().map_or_else(|| self.clock.now(), |first| from_millis(first.time_ms));
        let stored =
            Stored { digest, entries: own, open: false, ..Stored::new(new.parent, new.cwd, created) };
        shelf.insert(id.clone(), stored);
        Ok(id)
    }

    async fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        let mut shelf = lock(&self.shelf);
        let stored = find_mut(&mut shelf, id)?;
        stored.name = Some(title_line(title)).filter(|name| !name.is_empty());
        Ok(())
    }

    fn relay(&self) -> Option<Arc<dyn Relay>> {
        Some(Arc::new(self.relay.clone()))
    }
}

impl Stored {
    fn new(parent: Option<SessionId>, cwd: PathBuf, created: SystemTime) -> Self {
        Self {
            parent,
            cwd,
            created,
            digest: Digest::default(),
            name: None,
            branch: None,
            entries: Vec::new(),
            open: true,
            token: 0,
            leased: 0,
            mail: Vec::new(),
            taken: BTreeSet::new(),
        }
    }

    fn is_open(&self) -> bool {
        self.open || self.leased > 0
    }

    fn info(&self, id: &SessionId) -> SessionInfo {
        let updated = self.entries.last().map_or(self.created, |entry| from_millis(entry.time_ms));
        SessionInfo {
            id: id.clone(),
            parent: self.parent.clone(),
            cwd: self.cwd.clone(),
            branch: self.branch.clone(),
            created: self.created,
            updated,
            messages: self.digest.messages,
            branches: count_branches(&self.entries),
            title: self.name.clone().unwrap_or_else(|| self.digest.title.clone()),
            answered: self.digest.answered,
            interrupted: self.digest.running && !self.is_open(),
            lock: self.is_open().then(|| Lock { pid: std::process::id() }),
            unreadable: None,
        }
    }
}

struct MemorySession {
    id: SessionId,
    parent: Option<SessionId>,
    cwd: PathBuf,
    shelf: Shelf,
    clock: Arc<dyn Clock>,
    /// Whether this handle holds the session's lock: after `open` always, after `create` from the first
    /// append on.
    holds: AtomicBool,
    closed: AtomicBool,
    /// Token of the handle's lease, if it was opened with one.
    token: Option<u64>,
    /// Branch of version control to store with the next entries.
    branch: Mutex<Option<String>>,
}

impl MemorySession {
    fn new(store: &MemoryStore, id: SessionId, parent: Option<SessionId>, cwd: PathBuf, holds: bool) -> Self {
        Self {
            id,
            parent,
            cwd,
            shelf: store.shelf.clone(),
            clock: store.clock.clone(),
            holds: AtomicBool::new(holds),
            closed: AtomicBool::new(false),
            token: None,
            branch: Mutex::default(),
        }
    }

    fn release(&self) {
        if self.holds.swap(false, Ordering::AcqRel)
            && let Some(stored) = lock(&self.shelf).get_mut(&self.id)
        {
            match self.token {
                Some(_) => stored.leased = stored.leased.saturating_sub(1),
                None => stored.open = false,
            }
        }
    }

    /// Entries of all branches; empty before the first append.
    fn all_entries(&self) -> Vec<Entry> {
        if !self.holds.load(Ordering::Acquire) {
            return Vec::new();
        }
        lock(&self.shelf).get(&self.id).map(|stored| stored.entries.clone()).unwrap_or_default()
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Failed(format!("session `{}` is closed; open it again", self.id)));
        }
        Ok(())
    }
}

#[async_trait]
impl OpenSession for MemorySession {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn cwd(&self) -> Option<PathBuf> {
        Some(self.cwd.clone())
    }

    fn note_branch(&self, branch: String) {
        *self.branch.lock().unwrap_or_else(PoisonError::into_inner) = Some(branch);
    }

    async fn append(&self, kinds: Vec<EntryKind>, to: Durability) -> Result<Vec<EntryId>, StoreError> {
        self.append_taking(kinds, Vec::new(), to).await
    }

    async fn append_taking(
        &self,
        kinds: Vec<EntryKind>,
        mail: Vec<MailId>,
        _: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        self.check_open()?;
        if kinds.is_empty() && mail.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let mut shelf = lock(&self.shelf);
        let own = shelf.get(&self.id).filter(|_| self.holds.load(Ordering::Acquire));
        let contains =
            |wanted: &EntryId| own.is_some_and(|own| own.entries.iter().any(|at| at.id == *wanted));
        check_leaf(&self.id, &kinds, contains)?;
        if !self.holds.load(Ordering::Acquire) {
            if shelf.contains_key(&self.id) {
                return Err(exists_error(&self.id));
            }
            let fresh = Stored::new(self.parent.clone(), self.cwd.clone(), now);
            shelf.insert(self.id.clone(), fresh);
            self.holds.store(true, Ordering::Release);
        }
        let Some(stored) = shelf.get_mut(&self.id) else {
            return Err(StoreError::NotFound { id: self.id.to_string(), hint: String::new() });
        };
        if self.token.is_some_and(|own| own < stored.token) {
            return Err(StoreError::Fenced { id: self.id.clone() });
        }
        for id in mail {
            if let Some(at) = stored.mail.iter().position(|own| own.id == id) {
                stored.mail.remove(at);
                stored.taken.insert(id);
            }
        }
        if let Some(branch) = self.branch.lock().unwrap_or_else(PoisonError::into_inner).take() {
            stored.branch = Some(branch);
        }
        let mut ids = Vec::with_capacity(kinds.len());
        for kind in kinds {
            stored.digest.add(&kind);
            let parent = match &kind {
                EntryKind::Leaf { to, .. } => to.clone(),
                _ => stored.entries.last().map(|entry| entry.id.clone()),
            };
            let id = EntryId::fresh();
            ids.push(id.clone());
            stored.entries.push(Entry { id, parent, time_ms: millis(now), kind });
        }
        Ok(ids)
    }

    async fn mail(&self) -> Result<Vec<Mail>, StoreError> {
        self.check_open()?;
        Ok(lock(&self.shelf).get(&self.id).map(|stored| stored.mail.clone()).unwrap_or_default())
    }

    async fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.check_open()?;
        Ok(present_branch(self.all_entries()))
    }

    async fn scan_tree(&self, mut visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        self.check_open()?;
        visit_all(self.all_entries(), &mut visit);
        Ok(Vec::new())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.closed.store(true, Ordering::Release);
        self.release();
        Ok(())
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        self.release();
    }
}

/// Visits entries with the size of their JSON form.
fn visit_all(entries: Vec<Entry>, visit: &mut EntryVisitor) {
    let _ = entries.into_iter().try_for_each(|entry| {
        let bytes = serde_json::to_vec(&entry.kind).map_or(0, |json| json.len());
        visit(entry, bytes)
    });
}

fn lock(shelf: &Shelf) -> MutexGuard<'_, HashMap<SessionId, Stored>> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find_mut<'a>(
    shelf: &'a mut HashMap<SessionId, Stored>,
    id: &SessionId,
) -> Result<&'a mut Stored, StoreError> {
    if !shelf.contains_key(id) {
        let hint = near_match(id.as_str(), shelf.keys().map(ToString::to_string));
        return Err(StoreError::NotFound { id: id.to_string(), hint });
    }
    shelf.get_mut(id).ok_or_else(|| StoreError::NotFound { id: id.to_string(), hint: String::new() })
}

/// Whether two paths name the same directory, if it exists.
fn same_dir(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

pub(crate) fn exists_error(id: &SessionId) -> StoreError {
    StoreError::Failed(format!("session `{id}` exists already; open it, or choose another id"))
}

/// Milliseconds since 1970; 0 before.
pub(crate) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

/// The time `millis` after 1970.
pub(crate) fn from_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}
