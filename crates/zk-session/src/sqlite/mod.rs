pub(crate) mod check;
pub(crate) mod db;
pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod meta;
pub(crate) mod open;
mod recovery;
pub(crate) mod row;
mod session;
mod snapshot;
mod tree;
mod wal;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::oneshot;
use zk_core::model::SessionId;
use zk_core::service::{
    Clock, Entry, EntryVisitor, Lease, LiveEntries, Mail, NewSession, OpenSession, Relay, SessionFilter,
    SessionInfo, SessionScan, SessionSnapshot, SessionStore, StoreError, SystemClock,
};

use self::error::store_error;
use self::files::Files;
use self::lock::SessionLock;
use self::open::{Opened, Plan};
use self::session::{Notices, SqliteSession};
use self::writer::Writer;
use crate::digest::title as title_line;
use crate::memory::exists_error;
use crate::relay::SocketRelay;

/// Sessions on disk, one SQLite file each, `<root>/<project>/<id>.db`, so that damage and locks stay local.
///
/// A session has no file before its first append or its [announcement](OpenSession::prepare). Each open
/// session has a thread that does all of its I/O; appends that arrive together share a transaction. Folders
/// have mode 0700, files 0600. The locks need a local file system; without shared memory, no write-ahead log
/// is used.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let dir = tempfile::tempdir().unwrap();
/// # let root = dir.path().to_path_buf();
/// use zk_core::model::Message;
/// use zk_core::service::{Durability, EntryKind, NewSession, SessionStore};
/// use zk_session::SqliteStore;
///
/// let store = SqliteStore::new(root);
/// let session = store.create(NewSession { id: None, cwd: "/project".into(), parent: None }).await.unwrap();
/// let prompt = EntryKind::Message { message: Message::user_text("hello").shared(), usage: None };
/// session.append(vec![prompt], Durability::Process).await.unwrap();
/// let id = session.id().clone();
/// session.close().await.unwrap();
/// assert_eq!(store.open(&id).await.unwrap().entries().await.unwrap().len(), 1);
/// # });
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    root: PathBuf,
    clock: Arc<dyn Clock>,
    back: u64,
}

/// Bytes before the compaction's cut that opening a session still reads. Most conversations are read
/// completely then, which a change to a model with a larger window needs.
const READ_BACK_BYTES: u64 = 8 << 20;

/// Folder for incomplete sessions; no project's folder has this name.
const INCOMPLETE: &str = ".incomplete";

/// Folder of the sockets for live signals.
const RELAY: &str = ".relay";

/// Folder for deleted sessions, in the store and beside the large results.
pub(crate) const TRASH: &str = ".trash";

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("root", &self.root).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Store of the sessions under `root`, which need not exist yet.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root, clock: Arc::new(SystemClock), back: READ_BACK_BYTES }
    }

    /// Sets the clock that dates entries.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Sets how many bytes of the omitted beginning opening a session reads; the default is 8 MiB.
    #[must_use]
    pub fn read_back(self, bytes: u64) -> Self {
        Self { back: bytes, ..self }
    }

    /// Root directory of the store.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Store of incomplete sessions; this store neither lists nor opens them.
    #[must_use]
    pub fn incomplete(&self) -> Self {
        Self { root: self.root.join(INCOMPLETE), ..self.clone() }
    }

    /// Creates a session whose writer runs in a thread of its own.
    fn create_session(&self, new: NewSession) -> Result<SqliteSession, StoreError> {
        let id = new.id.unwrap_or_else(SessionId::fresh);
        let cwd = new.cwd;
        let plan = Plan { root: self.root.clone(), id: id.clone(), cwd: cwd.clone(), parent: new.parent };
        let notices = Notices::default();
        let writer = Writer::planned(plan, self.back, self.clock.clone(), notices.clone());
        let (commands, thread) = writer::spawn(move |queue| writer.run(&queue))?;
        Ok(SqliteSession {
            id,
            cwd: Some(cwd),
            notices,
            root: self.root.clone(),
            commands: Some(commands),
            thread: Some(thread),
        })
    }

    /// Opens a session in a thread of its own, which then writes it.
    async fn open_with(
        &self,
        id: &SessionId,
        open: impl FnOnce(&Path, &SessionId, u64) -> Result<Opened, StoreError> + Send + 'static,
    ) -> Result<Arc<dyn OpenSession>, StoreError> {
        let (ready, opened) = oneshot::channel();
        let (root, wanted, clock, back) = (self.root.clone(), id.clone(), self.clock.clone(), self.back);
        let (commands, thread) = writer::spawn(move |queue| match open(&root, &wanted, back) {
            Err(error) => {
                let _ = ready.send(Err(error));
            }
            Ok(mut opened) => {
                let notices = Notices::of(std::mem::take(&mut opened.notices));
                if ready.send(Ok((opened.cwd.clone(), notices.clone()))).is_ok() {
                    Writer::opened(opened, back, clock, notices).run(&queue);
                }
            }
        })?;
        let (cwd, notices) = opened.await.map_err(|_| thread_gone_error("open"))??;
        Ok(Arc::new(SqliteSession {
            id: id.clone(),
            cwd,
            notices,
            root: self.root.clone(),
            commands: Some(commands),
            thread: Some(thread),
        }))
    }

    /// Moves a closed session from the [incomplete ones](Self::incomplete) into this store.
    ///
    /// # Errors
    /// [`StoreError`]; the session then stays incomplete.
    pub async fn take_complete(&self, id: &SessionId) -> Result<(), StoreError> {
        let (root, from, id) = (self.root.clone(), self.root.join(INCOMPLETE), id.clone());
        offload(move || {
            let Some(files) = Files::find(&from, &id)? else { return Err(open::not_found(&from, &id)) };
            let _lock = SessionLock::take(&files)?;
            files.move_to(&root)
        })
        .await
    }
}

#[async_trait]
impl SessionStore for SqliteStore {
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError> {
        Ok(Arc::new(self.create_session(new)?))
    }

    async fn restore(&self, new: NewSession, entries: Vec<Entry>) -> Result<SessionId, StoreError> {
        if let Some(id) = &new.id {
            let (root, id) = (self.root.clone(), id.clone());
            offload(move || match Files::find(&root, &id)? {
                Some(_) => Err(exists_error(&id)),
                None => Ok(()),
            })
            .await?;
        }
        // Built in a separate folder, where a part of it cannot pass for the session.
        let incomplete = self.incomplete();
        let session = incomplete.create_session(new)?;
        let id = session.id.clone();
        let stored = session.restore(entries).await;
        let closed = session.close().await;
        drop(session);
        let taken = match stored.and(closed) {
            Ok(()) => self.take_complete(&id).await,
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            let _ = incomplete.delete(&id).await;
            return Err(error);
        }
        Ok(id)
    }

    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError> {
        self.open_with(id, open::open).await
    }

    /// The token is stored in the session's file, and each append checks it in its transaction.
    async fn open_leased(&self, id: &SessionId, lease: &Lease) -> Result<Arc<dyn OpenSession>, StoreError> {
        let token = i64::try_from(lease.token()).map_err(|_| {
            StoreError::Refused(format!("{} is too large for the token of a lease", lease.token()))
        })?;
        self.open_with(id, move |root, id, back| open::open_leased(root, id, back, token)).await
    }

    async fn post_mail(&self, id: &SessionId, mail: &Mail) -> Result<(), StoreError> {
        let (root, id, mail) = (self.root.clone(), id.clone(), mail.clone());
        offload(move || match Files::find(&root, &id)? {
            Some(files) => db::post_mail(&files, &mail),
            None => Err(open::not_found(&root, &id)),
        })
        .await
    }

    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError> {
        let (root, id) = (self.root.clone(), id.clone());
        offload(move || snapshot::read(&root, &id)).await
    }

    async fn scan(&self, id: &SessionId, mut visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        let (root, id) = (self.root.clone(), id.clone());
        offload(move || snapshot::scan(&root, &id, &mut visit)).await
    }

    async fn scan_tree(&self, id: &SessionId, mut visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        let (root, id) = (self.root.clone(), id.clone());
        offload(move || snapshot::scan_tree(&root, &id, &mut visit)).await
    }

    async fn read_live(&self, id: &SessionId) -> Result<LiveEntries, StoreError> {
        let (root, id, back) = (self.root.clone(), id.clone(), self.back);
        offload(move || snapshot::read_live(&root, &id, back)).await
    }

    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, StoreError> {
        let (root, id) = (self.root.clone(), id.clone());
        offload(move || snapshot::last_entries(&root, &id, most)).await
    }

    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        let (root, filter) = (self.root.clone(), filter.clone());
        offload(move || list::list(&root, &filter)).await
    }

    /// Removes a session and its damaged files that were kept.
    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let (root, id) = (self.root.clone(), id.clone());
        offload(move || {
            let Some(files) = Files::find(&root, &id)? else { return Err(open::not_found(&root, &id)) };
            let _lock = SessionLock::take(&files)?;
            files.remove_all()
        })
        .await
    }

    fn relay(&self) -> Option<Arc<dyn Relay>> {
        Some(Arc::new(SocketRelay::new(self.root.join(RELAY))))
    }

    fn drafts(&self) -> Option<Arc<dyn SessionStore>> {
        Some(Arc::new(self.incomplete()))
    }

    async fn publish(&self, id: &SessionId) -> Result<(), StoreError> {
        self.take_complete(id).await
    }

    async fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        let (root, id, title) = (self.root.clone(), id.clone(), title_line(title));
        offload(move || {
            let Some(files) = Files::find(&root, &id)? else { return Err(open::not_found(&root, &id)) };
            let path = files.db();
            let failed = |error| store_error(&error, "rename", &path, &id);
            let conn = db::connect_briefly(&path).map_err(failed)?;
            meta::write_name(&conn, &title).map_err(failed)
        })
        .await
    }
}

/// Runs `work`, which may block, on another thread.
pub(crate) async fn offload<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let (done, result) = oneshot::channel();
    std::thread::Builder::new()
        .name("zk-session-list".to_owned())
        .spawn(move || {
            let _ = done.send(work());
        })
        .map_err(|error| StoreError::Failed(format!("cannot start a thread: {error}")))?;
    result.await.map_err(|_| thread_gone_error("read"))?
}

fn thread_gone_error(what: &str) -> StoreError {
    StoreError::Failed(format!("the thread that was to {what} a session ended early"))
}
