//! Sessions in a map of keys to bytes.

mod dir;
mod layout;
mod lease;
mod map;
mod memory;
mod read;
mod segment;
mod session;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use zk_core::model::SessionId;
use zk_core::service::{
    Clock, Entry, EntryVisitor, NewSession, OpenSession, SessionFilter, SessionInfo, SessionScan,
    SessionSnapshot, SessionStore, StoreError, SystemClock,
};

pub use self::dir::DirMap;
use self::layout::{Keys, SessionKey};
use self::lease::{Hold, Leases};
pub use self::map::{KeyValue, MapError, MapLock, Saved};
pub use self::memory::MemoryMap;
use self::read::{Stored, read_session};
use self::session::MapSession;
use zk_session::is_valid_id;

use crate::shared::{apply_filter, check_id, check_requested_id, exists_error, not_found};

/// Time after which the lease of a writer ends unless it is renewed.
const LEASE_TIME: Duration = Duration::from_secs(30);

/// Sessions in a map with get, save, delete and list: a directory, a bucket, a table.
///
/// Each session has a few keys, `<session>/turns-<first>-<last>.jsonl`, and `<session>/meta.json` for
/// listings. An append saves one new key and overwrites none, so an acknowledged append survives whatever
/// happens to a later one; full ranges are merged into longer keys by the same order: new key first, old keys
/// after. An incomplete key at the end is left in the map and reported.
///
/// One process writes a session at a time: by a lock of the map, else by a lease, a key that is created only
/// where it is absent. A map with neither must be used by one process.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use zk_core::model::Message;
/// use zk_core::service::{Durability, EntryKind, NewSession, SessionStore};
/// use zk_stores::{FileMapStore, MemoryMap};
///
/// let store = FileMapStore::new(Arc::new(MemoryMap::default()));
/// let session = store.create(NewSession { id: None, cwd: "/project".into(), parent: None }).await.unwrap();
/// let prompt = EntryKind::Message { message: Message::user_text("hello").shared(), usage: None };
/// session.append(vec![prompt], Durability::Disk).await.unwrap();
/// session.close().await.unwrap();
/// assert_eq!(store.read(session.id()).await.unwrap().entries.len(), 1);
/// # });
/// ```
#[derive(Clone)]
pub struct FileMapStore {
    inner: Arc<Inner>,
}

/// State that the store's sessions share.
struct Inner {
    map: Arc<dyn KeyValue>,
    clock: Arc<dyn Clock>,
    leases: Leases,
    /// Sessions that this process writes.
    own: Mutex<HashSet<SessionId>>,
}

impl fmt::Debug for FileMapStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileMapStore").finish_non_exhaustive()
    }
}

impl FileMapStore {
    /// Store over a map.
    #[must_use]
    pub fn new(map: Arc<dyn KeyValue>) -> Self {
        Self::with_lease(map, LEASE_TIME)
    }

    /// Store over a map, with the time after which the lease of a writer ends unless it is renewed.
    #[must_use]
    pub fn with_lease(map: Arc<dyn KeyValue>, lease: Duration) -> Self {
        let leases = Leases::new(map.clone(), lease);
        let inner = Inner { map, clock: Arc::new(SystemClock), leases, own: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    async fn keys(&self, id: &SessionId) -> Result<Option<Keys>, StoreError> {
        let Some(key) = SessionKey::of(id) else { return Ok(None) };
        let names = self.inner.map.list(&key.prefix()).await.map_err(StoreError::from)?;
        Ok(Some(Keys::of(key, names)).filter(Keys::is_session))
    }

    async fn find_keys(&self, id: &SessionId) -> Result<Keys, StoreError> {
        check_requested_id(id)?;
        match self.keys(id).await? {
            Some(keys) => Ok(keys),
            None => {
                let all = self.all_keys().await?;
                Err(not_found(id, all.into_keys().map(|id| id.to_string())))
            }
        }
    }

    /// Keys of all sessions.
    async fn all_keys(&self) -> Result<BTreeMap<SessionId, Keys>, StoreError> {
        let names = self.inner.map.list("").await.map_err(StoreError::from)?;
        Ok(layout::group_by_session(names))
    }

    /// Reads a session with all of its branches, and its keys.
    async fn load(&self, id: &SessionId) -> Result<(Keys, Stored), StoreError> {
        let keys = self.find_keys(id).await?;
        let stored = read_session(&*self.inner.map, &keys, None).await?;
        if stored.is_gone() {
            return Err(read::gone_error(id));
        }
        Ok((keys, stored))
    }

    /// Adds the process that has the session open to its summary.
    async fn with_holder(
        &self,
        id: &SessionId,
        keys: &Keys,
        mut info: SessionInfo,
    ) -> Result<SessionInfo, StoreError> {
        // Contents of a map may name another session.
        info.id = id.clone();
        info.parent = info.parent.filter(is_valid_id);
        info.lock = self.inner.holder(id, keys).await?;
        info.interrupted &= info.lock.is_none();
        Ok(info)
    }

    async fn info(&self, id: &SessionId, keys: &Keys) -> Result<Option<SessionInfo>, StoreError> {
        let info = match read::read_info(&*self.inner.map, keys).await {
            Ok(Some(info)) => info,
            Ok(None) => return Ok(None),
            Err(error) => read::unreadable_info(id, &error).ok_or(error)?,
        };
        self.with_holder(id, keys, info).await.map(Some)
    }
}

impl Inner {
    /// Takes the right to write a session.
    async fn take_write_hold(self: &Arc<Self>, id: &SessionId, keys: &Keys) -> Result<Hold, StoreError> {
        if !lock(&self.own).insert(id.clone()) {
            return Err(StoreError::InUse { id: id.clone(), pid: std::process::id() });
        }
        let own = Own { inner: self.clone(), id: id.clone() };
        self.leases.take_hold(id, keys, own).await
    }

    async fn holder(
        &self,
        id: &SessionId,
        keys: &Keys,
    ) -> Result<Option<zk_core::service::Lock>, StoreError> {
        if lock(&self.own).contains(id) {
            return Ok(Some(zk_core::service::Lock { pid: std::process::id() }));
        }
        self.leases.holder(keys).await
    }
}

/// Entry of a session in the set of sessions that this process writes; removed on drop.
struct Own {
    inner: Arc<Inner>,
    id: SessionId,
}

impl Drop for Own {
    fn drop(&mut self) {
        lock(&self.inner.own).remove(&self.id);
    }
}

fn visit_all(entries: Vec<Entry>, visit: &mut EntryVisitor) {
    let _ = entries.into_iter().try_for_each(|entry| {
        let bytes = serde_json::to_vec(&entry.kind).map_or(0, |json| json.len());
        visit(entry, bytes)
    });
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl SessionStore for FileMapStore {
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        let id = new.id.clone().unwrap_or_else(SessionId::fresh);
        check_id(&id)?;
        let Some(key) = SessionKey::of(&id) else {
            return Err(StoreError::Failed(format!("`{id}` cannot be the id of a session")));
        };
        if self.keys(&id).await?.is_some() {
            return Err(exists_error(&id));
        }
        Ok(Arc::new(MapSession::planned(self.inner.clone(), id, key, new)))
    }

    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        let keys = self.find_keys(id).await?;
        let hold = self.inner.take_write_hold(id, &keys).await?;
        // Read again: another writer may have appended before the lock was taken.
        let (keys, stored) = self.load(id).await?;
        Ok(Arc::new(MapSession::opened(self.inner.clone(), id.clone(), &keys, stored, hold)))
    }

    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError> {
        let (keys, stored) = self.load(id).await?;
        let info = self.with_holder(id, &keys, stored.info()).await?;
        let notices = stored.notices.clone();
        Ok(SessionSnapshot { info, entries: stored.into_branch(), notices })
    }

    async fn scan(&self, id: &SessionId, mut visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        let SessionSnapshot { info, entries, notices } = self.read(id).await?;
        visit_all(entries, &mut visit);
        Ok(SessionScan { info, notices })
    }

    async fn scan_tree(&self, id: &SessionId, mut visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        let (keys, stored) = self.load(id).await?;
        let info = self.with_holder(id, &keys, stored.info()).await?;
        visit_all(stored.entries, &mut visit);
        Ok(SessionScan { info, notices: stored.notices })
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        let mut all = Vec::new();
        for (id, keys) in self.all_keys().await? {
            if keys.is_session()
                && is_valid_id(&id)
                && let Some(info) = self.info(&id, &keys).await?
            {
                all.push(info);
            }
        }
        Ok(apply_filter(all, filter))
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let keys = self.find_keys(id).await?;
        let hold = self.inner.take_write_hold(id, &keys).await?;
        let keys = self.find_keys(id).await?;
        let map = &self.inner.map;
        // From here on the session counts as deleted, even if the rest is interrupted.
        map.save(&keys.session.deletion_mark_key(), b"{}".to_vec()).await.map_err(StoreError::from)?;
        // The lease stays: its token keeps a former writer away from a new session of this id.
        for key in keys.content_keys() {
            map.delete(key).await.map_err(StoreError::from)?;
        }
        for key in keys.listing_keys() {
            map.delete(&key).await.map_err(StoreError::from)?;
        }
        map.delete(&keys.session.deletion_mark_key()).await.map_err(StoreError::from)?;
        if let Some(lock) = keys.stored_lock_key() {
            map.delete(&lock).await.map_err(StoreError::from)?;
        }
        hold.release().await;
        Ok(())
    }

    async fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        let keys = self.find_keys(id).await?;
        let (title, key) = (zk_session::title_line(title), keys.session.title_key());
        let written = match title.is_empty() {
            true => self.inner.map.delete(&key).await,
            false => self.inner.map.save(&key, title.into_bytes()).await,
        };
        written.map_err(StoreError::from)
    }
}
