use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::restore::restore_by_appending;
use super::{
    Entry, EntryKind, EntryVisitor, LiveEntries, Mail, Relay, SessionFilter, SessionInfo, SessionScan,
    SessionSnapshot, StoreError,
};
use crate::model::{EntryId, MailId, SessionId};
use crate::service::{EngineName, Lease};

/// Store of sessions, provided as a service.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Creates a session. The store may wait for the first entries before it writes to disk.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be used at all.
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError>;

    /// Opens a session for writing; exclusive until it is dropped.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when another process or conversation has it open, [`StoreError::NotFound`], [`StoreError::Damaged`].
    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError>;

    /// Opens a session for the leg of a run, under the token of its engine. Tokens only grow: an append under an older one than
    /// the store has seen fails with [`StoreError::Fenced`] and writes nothing. A writer that was opened without a lease
    /// excludes the others, and they exclude it.
    ///
    /// # Errors
    /// The errors of [`SessionStore::open`]; [`StoreError::Fenced`] for an older token; [`StoreError::Refused`] by a store
    /// without leases, which is the default.
    async fn open_leased(&self, id: &SessionId, lease: &Lease) -> Result<Arc<dyn OpenSession>, StoreError> {
        let _ = lease;
        Err(StoreError::Refused(format!(
            "session `{id}` cannot be opened for a worker: its store has no leases; use the store on disk, or PostgreSQL"
        )))
    }

    /// Leaves mail for the session's present or next owner, without opening the session.
    /// [`OpenSession::append_taking`] takes it out of the store once.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::PostedBefore`] for an id that was posted before, also if it was taken since;
    /// [`StoreError::Refused`] for more than [`MAX_MAIL_BYTES`](super::MAX_MAIL_BYTES), and by a store that keeps no mail,
    /// which is the default.
    async fn post_mail(&self, id: &SessionId, mail: &Mail) -> Result<(), StoreError> {
        let _ = mail;
        Err(StoreError::Refused(format!(
            "session `{id}` takes no mail: its store keeps none; use the store on disk, or PostgreSQL"
        )))
    }

    /// Reads the present branch of a session without a lock, also while it is being written, and without changing anything.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Damaged`] when no part of the session can be read.
    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError>;

    /// Reads a session like [`SessionStore::read`], and calls `visit` for each entry, oldest first, with the size of its kind
    /// as JSON in bytes, until the callback breaks. A store should hold only one entry in memory at a time.
    ///
    /// # Errors
    /// The errors of [`SessionStore::read`]. Some entries may have been visited before the error.
    async fn scan(&self, id: &SessionId, mut visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        let SessionSnapshot { info, entries, notices } = self.read(id).await?;
        for entry in entries {
            let bytes = serde_json::to_vec(&entry.kind).map_or(0, |json| json.len());
            if visit(entry, bytes).is_break() {
                break;
            }
        }
        Ok(SessionScan { info, notices })
    }

    /// Visits the entries of all branches in the order in which they were written, like [`SessionStore::scan`]. A store that
    /// keeps branches overrides the default, which visits the present branch.
    ///
    /// # Errors
    /// The errors of [`SessionStore::read`]. Some entries may have been visited before the error.
    async fn scan_tree(&self, id: &SessionId, visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        self.scan(id, visit).await
    }

    /// Reads like [`SessionStore::read`], but only the entries that a conversation continues from ([`OpenSession::live`]).
    ///
    /// # Errors
    /// The errors of [`SessionStore::read`].
    async fn read_live(&self, id: &SessionId) -> Result<LiveEntries, StoreError> {
        Ok(LiveEntries::whole(self.read(id).await?.entries))
    }

    /// Reads at most the `most` newest entries of a session, oldest first, for a preview before all of it is
    /// read. Takes no lock, like [`SessionStore::read`]; unreadable entries are skipped.
    ///
    /// # Errors
    /// The errors of [`SessionStore::read`].
    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, StoreError> {
        let mut entries = self.read(id).await?.entries;
        Ok(entries.split_off(entries.len().saturating_sub(most)))
    }

    /// Lists the sessions that match `filter`, newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read. An unreadable session is listed with the reason.
    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError>;

    /// Removes a session.
    ///
    /// # Errors
    /// [`StoreError`], also when the session is open.
    async fn delete(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Creates a session with the entries of another one, all or none: the way back from an export, and of an import. The
    /// session is closed then. A store keeps the ids and times of the entries if it can; the default gives new ones, and
    /// removes what it stored when it fails.
    ///
    /// # Errors
    /// [`StoreError`], also when the session exists.
    async fn restore(&self, new: NewSession, entries: Vec<Entry>) -> Result<SessionId, StoreError> {
        restore_by_appending(self, new, entries).await
    }

    /// Gives a session another title, also an open one; an empty title is the beginning of its first prompt again.
    ///
    /// # Errors
    /// [`StoreError`], also when the store keeps no titles.
    async fn rename(&self, id: &SessionId, _title: &str) -> Result<(), StoreError> {
        Err(StoreError::Failed(format!("the title of {id} cannot be changed")))
    }

    /// Returns the store of incomplete sessions, such as copies in the making, which this store neither lists
    /// nor opens. `None` if there is none; a copy is then appended at once, as far as it fits.
    fn drafts(&self) -> Option<Arc<dyn SessionStore>> {
        None
    }

    /// Returns the live signals of the sessions. `None` for a store without any: those who watch a run then look at its
    /// entries only.
    fn relay(&self) -> Option<Arc<dyn Relay>> {
        None
    }

    /// Returns a handle to the store for one tenant, from which the store's database hides the sessions of other tenants.
    /// `None`, the default, for a store without row-level security.
    fn of_tenant(&self, tenant: &EngineName) -> Option<Arc<dyn SessionStore>> {
        let _ = tenant;
        None
    }

    /// Sets the tenant of a stored session. A store that keeps no tenants apart does nothing, which is the default.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and when the store cannot be used.
    async fn set_tenant(&self, id: &SessionId, tenant: &EngineName) -> Result<(), StoreError> {
        let _ = (id, tenant);
        Ok(())
    }

    /// Moves a closed session from the [drafts](Self::drafts) into this store.
    ///
    /// # Errors
    /// [`StoreError`]; the session then stays a draft.
    async fn publish(&self, id: &SessionId) -> Result<(), StoreError> {
        Err(StoreError::Failed(format!("there is no draft of {id}")))
    }
}

/// A session that is open for writing.
#[async_trait]
pub trait OpenSession: Send + Sync {
    /// Returns the session's id.
    fn id(&self) -> &SessionId;

    /// Returns the working directory of the session, if the store knows it.
    fn cwd(&self) -> Option<PathBuf> {
        None
    }

    /// Returns messages for the person, oldest first: parts unreadable on opening, and problems since.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// Hints that entries will follow soon. A store may prepare in the background; it undoes this if none follow.
    fn prepare(&self) {}

    /// Records the current branch of version control, for listings. A store keeps it with the next entries,
    /// or ignores it.
    fn note_branch(&self, _branch: String) {}

    /// Appends entries after the current leaf, all or none. When this returns, they and all earlier entries
    /// survive the failure in `durability`. An empty list with [`Durability::Disk`] syncs earlier entries.
    ///
    /// If the first entry is an [`EntryKind::Leaf`], all of them follow the entry that it names. No other entry may be one.
    ///
    /// # Errors
    /// [`StoreError`], such as [`StoreError::NoEntry`] for an unknown leaf; no entry was added then.
    async fn append(
        &self,
        entries: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError>;

    /// Appends entries like [`OpenSession::append`], and takes mail out of the store in the same transaction: both are stored,
    /// or neither is. Mail that is not there is passed over.
    ///
    /// # Errors
    /// The errors of [`OpenSession::append`]; [`StoreError::Refused`] for any mail by a store that keeps none, which is the
    /// default.
    async fn append_taking(
        &self,
        entries: Vec<EntryKind>,
        mail: Vec<MailId>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError> {
        if mail.is_empty() {
            return self.append(entries, durability).await;
        }
        Err(StoreError::Refused(format!("session `{}` has no mail: its store keeps none", self.id())))
    }

    /// Returns the mail that waits, oldest first; none by default.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    async fn mail(&self) -> Result<Vec<Mail>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns the entries of the present branch, from the root to the leaf.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    async fn entries(&self) -> Result<Vec<Entry>, StoreError>;

    /// Returns the entries that a conversation continues from: all, or without the beginning that its last
    /// compaction left out.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    async fn live(&self) -> Result<LiveEntries, StoreError> {
        Ok(LiveEntries::whole(self.entries().await?))
    }

    /// Visits the entries from the root to the leaf like [`SessionStore::scan`], and returns its notices.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    async fn scan(&self, mut visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        // The size of an entry matters only to callers that measure a store.
        let _ = self.entries().await?.into_iter().try_for_each(|entry| visit(entry, 0));
        Ok(Vec::new())
    }

    /// Visits the entries of all branches like [`SessionStore::scan_tree`], and returns its notices.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    async fn scan_tree(&self, visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        self.scan(visit).await
    }

    /// Closes the session after all entries are written.
    ///
    /// # Errors
    /// [`StoreError`] when something could not be written.
    async fn close(&self) -> Result<(), StoreError>;
}

/// Failure that appended entries survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The death of the process at any moment. Needs no sync.
    #[default]
    Process,
    /// A power failure too: synced to disk, for records that must exist before a side effect or its result.
    Disk,
}

/// Parameters of a new session.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Id of the session; `None` for a fresh id.
    pub id: Option<SessionId>,
    /// Working directory of the session.
    pub cwd: PathBuf,
    /// Session that this one continues or belongs to.
    pub parent: Option<SessionId>,
}
