use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use zk_core::model::SessionId;
use zk_core::service::{SessionFilter, SessionInfo, SessionStore, StoreError};

use super::sizes::size_of;
use super::trash::io_error;
use super::trash::{Trash, TrashError};
use crate::sqlite::check::is_blank;
use crate::sqlite::files::{self, Files, Listed};
use crate::sqlite::lock::{SessionLock, holder};
use crate::sqlite::offload;
use crate::{OpeningError, SessionPlace, SqliteStore, discard_unanswered, is_valid_id};

/// File whose time tells when leftovers were last removed.
const LAST_REMOVAL: &str = ".leftovers-removed";

/// Kind of a [`Leftover`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeftoverKind {
    /// Session without an answer, which listings omit.
    Unanswered,
    /// Copy of a session that was never completed.
    AbandonedCopy,
    /// Large results of a session that is not there any more.
    OrphanedOutputs,
    /// Session in the trash whose time is over.
    ExpiredTrash,
}

/// Files of the store that nobody needs any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Kind of the leftover.
    pub kind: LeftoverKind,
    /// Session that the files belong to.
    pub id: SessionId,
    /// Size of the files in bytes, which their removal frees.
    pub bytes: u64,
}

/// Leftovers of a store, its trash and the large results beside it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let dir = tempfile::tempdir().unwrap();
/// # let root = dir.path().join("sessions");
/// use std::time::Duration;
/// use zk_session::{Leftovers, SessionPlace};
///
/// let place = SessionPlace { root: Some(root), saves: true, ..SessionPlace::default() };
/// let day = Duration::from_hours(24);
/// let leftovers = Leftovers::find(&place, day, 30 * day).await.unwrap();
/// assert!(leftovers.all.is_empty());
/// assert!(leftovers.remove().await.unwrap().is_empty());
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Leftovers {
    /// All leftovers that were found.
    pub all: Vec<Leftover>,
    root: PathBuf,
    outputs: Option<PathBuf>,
    trash_age: Duration,
}

impl SessionPlace {
    /// Bytes of all sessions, with their large results, the trash and the search index.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        [&self.root, &self.outputs].into_iter().flatten().map(|dir| size_of(dir)).sum()
    }
}

impl Leftovers {
    /// Finds leftovers that are at least `age` old, and sessions that were deleted at least `trash_age` ago. A session
    /// that a process has open is none.
    ///
    /// # Errors
    /// [`TrashError`] when the store or its trash cannot be listed.
    pub async fn find(place: &SessionPlace, age: Duration, trash_age: Duration) -> Result<Self, TrashError> {
        let root = place.root.clone().ok_or_else(|| StoreError::Failed(OpeningError::NoPlace.to_string()))?;
        let outputs = place.outputs.clone();
        let store = SqliteStore::new(root.clone());
        let every = SessionFilter { unanswered: true, ..SessionFilter::default() };
        let listed = store.list(&every).await?;
        let copies = store.incomplete().list(&every).await?;
        let found = Self { all: Vec::new(), root, outputs, trash_age };
        offload(move || Ok(found.collect_all(&listed, &copies, age))).await?
    }

    fn collect_all(
        mut self,
        listed: &[SessionInfo],
        copies: &[SessionInfo],
        age: Duration,
    ) -> Result<Self, TrashError> {
        let now = SystemTime::now();
        let is_old = |time: SystemTime| now.duration_since(time).is_ok_and(|since| since >= age);
        let mut add = |kind, id: &SessionId, bytes| self.all.push(Leftover { kind, id: id.clone(), bytes });
        for info in listed {
            let is_unanswered = !info.answered && !info.interrupted && info.unreadable.is_none();
            if is_unanswered && info.lock.is_none() && is_old(info.updated) {
                add(LeftoverKind::Unanswered, &info.id, session_bytes(&self.root, &info.id));
            }
        }
        for files in blank_files(&self.root)? {
            let changed = fs::metadata(files.db()).and_then(|meta| meta.modified());
            if changed.is_ok_and(is_old) && holder(&files).is_none() {
                add(LeftoverKind::Unanswered, files.id(), session_bytes(&self.root, files.id()));
            }
        }
        let incomplete = SqliteStore::new(self.root.clone()).incomplete();
        for info in copies.iter().filter(|info| info.lock.is_none() && is_old(info.updated)) {
            add(LeftoverKind::AbandonedCopy, &info.id, session_bytes(incomplete.root(), &info.id));
        }
        let trash = Trash::new(self.root.clone(), self.outputs.clone());
        let expired = trash.expired(self.trash_age)?;
        expired.iter().for_each(|session| add(LeftoverKind::ExpiredTrash, &session.id, session.bytes));
        if let Some(outputs) = &self.outputs {
            let mut kept: HashSet<SessionId> = all_ids(&self.root)?;
            kept.extend(all_ids(incomplete.root())?);
            // The results of a session in the trash are there too, unless their move was interrupted.
            kept.extend(trash.ids()?);
            for (id, changed) in directories(outputs) {
                if !kept.contains(&id) && is_old(changed) {
                    add(LeftoverKind::OrphanedOutputs, &id, size_of(&outputs.join(id.as_str())));
                }
            }
        }
        Ok(self)
    }

    /// Removes the leftovers, each only if it still is one, and returns those that were removed.
    ///
    /// # Errors
    /// [`TrashError`] for the first leftover that cannot be removed.
    pub async fn remove(&self) -> Result<Vec<Leftover>, TrashError> {
        let store = SqliteStore::new(self.root.clone());
        let incomplete = store.incomplete();
        let mut removed = Vec::new();
        for leftover in &self.all {
            let is_removed = match leftover.kind {
                LeftoverKind::Unanswered => self.remove_unanswered(&store, &leftover.id).await?,
                LeftoverKind::AbandonedCopy => match incomplete.delete(&leftover.id).await {
                    Ok(()) => true,
                    Err(StoreError::InUse { .. } | StoreError::NotFound { .. }) => false,
                    Err(error) => return Err(error.into()),
                },
                LeftoverKind::OrphanedOutputs => self.remove_outputs(&leftover.id)?,
                // Expired sessions are removed below, all at once.
                LeftoverKind::ExpiredTrash => true,
            };
            if is_removed {
                removed.push(leftover.clone());
            }
        }
        Trash::new(self.root.clone(), self.outputs.clone()).remove_older(self.trash_age).await?;
        record_removal_time(&self.root);
        Ok(removed)
    }

    async fn remove_unanswered(&self, store: &SqliteStore, id: &SessionId) -> Result<bool, TrashError> {
        if let Some(files) = Files::find(&self.root, id)?
            && is_blank(&files.db())
            && !files.has_lone_log()
        {
            return match SessionLock::take(&files) {
                Ok(_lock) => Ok(files.remove_all().map(|()| true)?),
                Err(StoreError::InUse { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        match discard_unanswered(store, id).await {
            Ok(is_removed) => Ok(is_removed && self.remove_outputs(id).is_ok()),
            Err(StoreError::InUse { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn remove_outputs(&self, id: &SessionId) -> Result<bool, TrashError> {
        let Some(dir) = self.outputs.as_ref().map(|outputs| outputs.join(id.as_str())) else {
            return Ok(false);
        };
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io_error("remove", &dir, error))
            }
            _ => Ok(true),
        }
    }

    /// Time of the last removal of leftovers from the store under `root`.
    #[must_use]
    pub fn last_removal(root: &Path) -> Option<SystemTime> {
        fs::metadata(root.join(LAST_REMOVAL)).and_then(|meta| meta.modified()).ok()
    }
}

/// Records the time of a removal. A failure is ignored: the time is only shown to people.
fn record_removal_time(root: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    let options = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).clone();
    if let Ok(file) = options.open(root.join(LAST_REMOVAL)) {
        let _ = file.set_modified(SystemTime::now());
    }
}

fn session_bytes(root: &Path, id: &SessionId) -> u64 {
    let Ok(Some(files)) = Files::find(root, id) else { return 0 };
    let paths = [files.db(), files.log(), files.quarantine()];
    paths.iter().filter_map(|path| fs::metadata(path).ok()).map(|meta| meta.len()).sum()
}

/// Sessions whose file was begun and never written.
fn blank_files(root: &Path) -> Result<Vec<Files>, StoreError> {
    let blank = files::all(root, None)?.into_iter().filter_map(|listed| match listed {
        Listed::Db(files) => (is_blank(&files.db()) && !files.has_lone_log()).then_some(files),
        Listed::Kept(..) => None,
    });
    Ok(blank.collect())
}

fn all_ids(root: &Path) -> Result<HashSet<SessionId>, StoreError> {
    let ids = files::all(root, None)?.into_iter().map(|listed| match listed {
        Listed::Db(files) | Listed::Kept(files, _) => files.id().clone(),
    });
    Ok(ids.collect())
}

/// Directories that are named like a session, with the time of their last change.
fn directories(dir: &Path) -> Vec<(SessionId, SystemTime)> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let found = entries.flatten().filter_map(|entry| {
        let meta = entry.metadata().ok().filter(fs::Metadata::is_dir)?;
        let id = SessionId::from(entry.file_name().into_string().ok()?);
        is_valid_id(&id).then_some(())?;
        Some((id, meta.modified().ok()?))
    });
    found.collect()
}
