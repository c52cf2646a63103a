use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use zk_core::model::SessionId;
use zk_core::service::{StoreError, make_private_dir, read_regular};

use super::sizes::size_of;
use crate::memory::{from_millis, millis};
use crate::sqlite::db::{BUSY, connect_briefly, connect_read_only};
use crate::sqlite::files::Files;
use crate::sqlite::lock::SessionLock;
use crate::sqlite::meta::Meta;
use crate::sqlite::open::{io_error as store_io_error, not_found};
use crate::sqlite::{TRASH, offload};
use crate::{OpeningError, SessionPlace, is_valid_id};

/// Name of the file that describes a session in the trash.
const RECORD: &str = "trashed.json";
/// Maximum size of a [`RECORD`] in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 20;
/// Newest version of [`RECORD`] that this program reads.
const RECORD_VERSION: u32 = 1;

/// Sessions that were deleted, with all their files and large results, until they are restored or removed for good.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let dir = tempfile::tempdir().unwrap();
/// # let root = dir.path().to_path_buf();
/// use zk_core::model::Message;
/// use zk_core::service::{Durability, EntryKind, NewSession, SessionStore};
/// use zk_session::{SqliteStore, Trash};
///
/// let store = SqliteStore::new(root.clone());
/// let session = store.create(NewSession { id: None, cwd: "/project".into(), parent: None }).await.unwrap();
/// let prompt = EntryKind::Message { message: Message::user_text("hello").shared(), usage: None };
/// session.append(vec![prompt], Durability::Process).await.unwrap();
/// session.close().await.unwrap();
///
/// let trash = Trash::new(root, None);
/// trash.put(session.id()).await.unwrap();
/// assert!(store.open(session.id()).await.is_err());
/// trash.restore(session.id().as_str()).await.unwrap();
/// assert!(store.open(session.id()).await.is_ok());
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Trash {
    root: PathBuf,
    outputs: Option<PathBuf>,
}

/// Session in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashedSession {
    /// Id of the session.
    pub id: SessionId,
    /// Title of the session; empty if it could not be read.
    pub title: String,
    /// Working directory of the session.
    pub cwd: PathBuf,
    /// Time of the deletion.
    pub deleted: SystemTime,
    /// Bytes of its files and large results.
    pub bytes: u64,
}

/// Error of the trash.
#[derive(Debug, thiserror::Error)]
pub enum TrashError {
    /// The session store or the file system failed, or a newer zk put the session into the trash.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The trash has no such session.
    #[error("the trash has no session `{text}`{hint}")]
    NotInTrash {
        /// Id or prefix, as requested.
        text: String,
        /// Ids in the trash that begin with `text`, as the end of the message; may be empty.
        hint: String,
    },
    /// A session of the id is in the trash already.
    #[error("a session `{0}` is in the trash already; restore or remove that one first")]
    InTrashAlready(SessionId),
    /// Files are where the session would be restored to.
    #[error("session `{id}` cannot be restored: {path} is in its place; move it away first")]
    PlaceTaken {
        /// Id of the session.
        id: SessionId,
        /// Path that is taken.
        path: PathBuf,
    },
}

/// Content of [`RECORD`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    version: u32,
    /// Name of the project's folder in the store.
    folder: String,
    title: String,
    cwd: PathBuf,
    deleted_ms: u64,
}

impl SessionPlace {
    /// Trash of this place's store.
    ///
    /// # Errors
    /// [`OpeningError::NoPlace`].
    pub fn trash(&self) -> Result<Trash, OpeningError> {
        let root = self.root.clone().ok_or(OpeningError::NoPlace)?;
        Ok(Trash::new(root, self.outputs.clone()))
    }
}

impl Trash {
    /// Trash of the store under `root`, whose sessions have their large results under `outputs`.
    #[must_use]
    pub fn new(root: PathBuf, outputs: Option<PathBuf>) -> Self {
        Self { root, outputs }
    }

    /// Moves a session into the trash.
    ///
    /// # Errors
    /// [`TrashError`]; among others, [`StoreError::InUse`] when another process has the session open. After an error in
    /// the middle, the next call completes the move.
    pub async fn put(&self, id: &SessionId) -> Result<TrashedSession, TrashError> {
        let (trash, id) = (self.clone(), id.clone());
        offload(move || Ok(trash.put_blocking(&id))).await?
    }

    /// Sessions in the trash, the last deleted first.
    ///
    /// # Errors
    /// [`TrashError::Store`] when the trash cannot be listed.
    pub async fn list(&self) -> Result<Vec<TrashedSession>, TrashError> {
        let trash = self.clone();
        offload(move || Ok(trash.list_blocking())).await?
    }

    /// Moves the session with the id or unique prefix `text` back into the store.
    ///
    /// # Errors
    /// [`TrashError`]; the session then stays in the trash, and the next call completes what was begun.
    pub async fn restore(&self, text: &str) -> Result<SessionId, TrashError> {
        let (trash, text) = (self.clone(), text.trim().to_owned());
        offload(move || Ok(trash.restore_blocking(&text))).await?
    }

    /// Removes the sessions for good that were deleted at least `age` ago.
    ///
    /// # Errors
    /// [`TrashError::Store`] for the first session that cannot be removed.
    pub async fn remove_older(&self, age: Duration) -> Result<Vec<TrashedSession>, TrashError> {
        let trash = self.clone();
        let remove = move || {
            let expired = trash.expired(age)?;
            for session in &expired {
                trash.remove(&session.id)?;
            }
            Ok(expired)
        };
        offload(move || Ok(remove())).await?
    }

    /// Sessions that were deleted at least `age` ago. Those of a newer zk, or of an unknown time, are never among them.
    pub(super) fn expired(&self, age: Duration) -> Result<Vec<TrashedSession>, TrashError> {
        let now = SystemTime::now();
        let is_old = |session: &TrashedSession| {
            age.is_zero() || now.duration_since(session.deleted).is_ok_and(|since| since >= age)
        };
        let is_known =
            |session: &TrashedSession| self.record(&session.id).is_ok_and(|record| record.deleted_ms > 0);
        Ok(self.list_blocking()?.into_iter().filter(is_known).filter(is_old).collect())
    }

    fn dir(&self, id: &SessionId) -> PathBuf {
        self.root.join(TRASH).join(id.as_str())
    }

    fn outputs_dir(&self, id: &SessionId) -> Option<PathBuf> {
        Some(self.outputs.as_ref()?.join(TRASH).join(id.as_str()))
    }

    fn put_blocking(&self, id: &SessionId) -> Result<TrashedSession, TrashError> {
        let dir = self.dir(id);
        let Some(files) = Files::find(&self.root, id)? else {
            return Err(match dir.is_dir() {
                true => TrashError::InTrashAlready(id.clone()),
                false => not_found(&self.root, id).into(),
            });
        };
        let lock = SessionLock::take(&files)?;
        if dir.join(format!("{id}.db")).exists() {
            return Err(TrashError::InTrashAlready(id.clone()));
        }
        let meta = fold_log(&files).unwrap_or_default();
        let folder = files.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let title = meta.name.unwrap_or(meta.digest.title);
        let deleted_ms = millis(SystemTime::now());
        let record = Record { version: RECORD_VERSION, folder, title, cwd: meta.cwd, deleted_ms };
        private_dir(&dir)?;
        write_record(&dir.join(RECORD), &record)?;
        if let (Some(outputs), Some(to)) = (&self.outputs, self.outputs_dir(id)) {
            move_if_exists(&outputs.join(id.as_str()), &to)?;
        }
        move_files(files.dir(), &dir, id)?;
        drop(lock);
        Ok(self.to_trashed_session(id, record))
    }

    fn list_blocking(&self) -> Result<Vec<TrashedSession>, TrashError> {
        let mut found: Vec<TrashedSession> = self
            .ids()?
            .into_iter()
            .map(|id| {
                let record = self.record(&id).unwrap_or_default();
                self.to_trashed_session(&id, record)
            })
            .collect();
        found.sort_by(|a, b| (b.deleted, &b.id).cmp(&(a.deleted, &a.id)));
        Ok(found)
    }

    /// Ids of the sessions in the trash.
    pub(super) fn ids(&self) -> Result<Vec<SessionId>, TrashError> {
        let dir = self.root.join(TRASH);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(io_error("list", &dir, source)),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.map(SessionId::from).filter(is_valid_id).collect())
    }

    fn to_trashed_session(&self, id: &SessionId, record: Record) -> TrashedSession {
        let bytes = size_of(&self.dir(id)) + self.outputs_dir(id).map_or(0, |dir| size_of(&dir));
        let deleted = from_millis(record.deleted_ms);
        TrashedSession { id: id.clone(), title: record.title, cwd: record.cwd, deleted, bytes }
    }

    /// Record of a session; rebuilt from its database if it cannot be read.
    fn record(&self, id: &SessionId) -> Result<Record, TrashError> {
        let dir = self.dir(id);
        let read = read_regular(&dir.join(RECORD), MAX_RECORD_BYTES).ok();
        if let Some(record) = read.and_then(|json| serde_json::from_slice::<Record>(&json).ok()) {
            if record.version > RECORD_VERSION {
                let (id, found) = (id.clone(), record.version);
                return Err(StoreError::TooNew { id, found, known: RECORD_VERSION }.into());
            }
            return Ok(record);
        }
        let db = dir.join(format!("{id}.db"));
        let meta = connect_read_only(&db, BUSY).and_then(|conn| Meta::read(&conn)).unwrap_or_default();
        let place = Files::of_project(&self.root, &meta.cwd, id);
        let folder = place.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let changed =
            fs::metadata(&dir).and_then(|meta| meta.modified()).unwrap_or_else(|_| SystemTime::now());
        let title = meta.name.unwrap_or(meta.digest.title);
        Ok(Record { version: RECORD_VERSION, folder, title, cwd: meta.cwd, deleted_ms: millis(changed) })
    }

    fn restore_blocking(&self, text: &str) -> Result<SessionId, TrashError> {
        let id = self.find_matching(text)?;
        let dir = self.dir(&id);
        let record = self.record(&id)?;
        // The name of a folder, and no path out of the store.
        let folder = Path::new(&record.folder).file_name().unwrap_or("restored".as_ref());
        let to = self.root.join(folder);
        if let Some(files) = Files::find(&self.root, &id)?
            && files.db().exists()
        {
            return Err(TrashError::PlaceTaken { id, path: files.db() });
        }
        private_dir(&to)?;
        if let (Some(outputs), Some(from)) = (&self.outputs, self.outputs_dir(&id)) {
            let place = outputs.join(id.as_str());
            if from.exists() && place.exists() {
                return Err(TrashError::PlaceTaken { id, path: place });
            }
            move_if_exists(&from, &place)?;
        }
        move_files(&dir, &to, &id)?;
        self.remove(&id)?;
        Ok(id)
    }

    fn find_matching(&self, text: &str) -> Result<SessionId, TrashError> {
        let ids = self.ids()?;
        if let Some(id) = ids.iter().find(|id| id.as_str() == text) {
            return Ok(id.clone());
        }
        let begins = |id: &&SessionId| {
            let bare = id.as_str().strip_prefix("s_").unwrap_or(id.as_str());
            !text.is_empty() && (id.as_str().starts_with(text) || bare.starts_with(text))
        };
        let matching: Vec<&SessionId> = ids.iter().filter(begins).collect();
        match matching.as_slice() {
            [only] => Ok((*only).clone()),
            [] => Err(TrashError::NotInTrash { text: text.to_owned(), hint: String::new() }),
            several => {
                let names: Vec<String> = several.iter().take(3).map(|id| format!("`{id}`")).collect();
                let more = if several.len() > names.len() { ", …" } else { "" };
                let hint =
                    format!(": {} sessions begin with that ({}{more})", several.len(), names.join(", "));
                Err(TrashError::NotInTrash { text: text.to_owned(), hint })
            }
        }
    }

    /// Removes a session for good. The record goes last.
    fn remove(&self, id: &SessionId) -> Result<(), TrashError> {
        let dir = self.dir(id);
        if let Some(outputs) = self.outputs_dir(id) {
            remove_dir(&outputs)?;
        }
        remove_dir(&dir)
    }
}

/// Folds the write-ahead log of a session into its database, if it is sound, and reads what a listing shows.
fn fold_log(files: &Files) -> Option<Meta> {
    let path = files.db();
    // SQLite would delete such a log.
    if files.has_lone_log() || !path.exists() {
        return None;
    }
    let conn = connect_briefly(&path).ok()?;
    // A damaged log moves with its database.
    let _ = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    Meta::read(&conn).ok()
}

/// Moves all files of a session from one folder to another, the database last: until then it is where it was.
fn move_files(from: &Path, to: &Path, id: &SessionId) -> Result<(), TrashError> {
    let listed = fs::read_dir(from);
    let listed = listed.map_err(|source| io_error("list", from, source))?;
    let prefix = format!("{id}.");
    let names = listed.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(&prefix) && *name != format!("{id}.lock")).collect();
    names.sort_by_key(|name| *name == format!("{id}.db"));
    for name in names {
        move_if_exists(&from.join(&name), &to.join(&name))?;
    }
    sync_dir(to).and_then(|()| sync_dir(from))
}

fn move_if_exists(from: &Path, to: &Path) -> Result<(), TrashError> {
    if fs::symlink_metadata(from).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        private_dir(parent)?;
    }
    fs::rename(from, to).map_err(|source| io_error("move", from, source))
}

fn private_dir(dir: &Path) -> Result<(), TrashError> {
    make_private_dir(dir).map_err(|source| io_error("create the folder", dir, source))
}

#[expect(clippy::disallowed_methods, reason = "the trash has a thread of its own")]
fn write_record(path: &Path, record: &Record) -> Result<(), TrashError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let written = || {
        let text = serde_json::to_string(record)?;
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    written().map_err(|source| io_error("write", path, source))
}

#[expect(clippy::disallowed_methods, reason = "the trash has a thread of its own")]
fn sync_dir(dir: &Path) -> Result<(), TrashError> {
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(|source| io_error("sync", dir, source))
}

fn remove_dir(dir: &Path) -> Result<(), TrashError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", dir, error)),
        _ => Ok(()),
    }
}

pub(super) fn io_error(doing: &'static str, path: &Path, source: io::Error) -> TrashError {
    TrashError::Store(store_io_error(doing, path, source))
}
