use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zk_core::model::SessionId;
use zk_core::service::{StateFileError, StateFiles, StateLock};

use super::entry::{ENTRY_VERSION, FleetEntry, FleetRequest, FleetView};
use super::error::FleetError;
use super::now_ms;

/// Time for which an orphan without a goal is listed, from when it was first found.
const ORPHAN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum size of an entry that is read, in bytes.
const MAX_ENTRY_BYTES: usize = 256 * 1024;

/// Maximum size of a file of requests that is read, in bytes.
const MAX_REQUESTS_BYTES: usize = 64 * 1024;

/// Registry of live conversations: one status file per conversation, with a lock held by its process. Calls block.
///
/// A conversation holds the lock of its entry as long as its process lives. The system releases the lock when
/// the process ends, so that liveness does not depend on process ids.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_exec::LocalStateFiles;
/// use zk_goals::FleetDir;
///
/// let dir = tempfile::tempdir().unwrap();
/// let fleet = FleetDir::new(dir.path().join("fleet"), Arc::new(LocalStateFiles::default()));
/// assert!(fleet.list().unwrap().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct FleetDir {
    dir: PathBuf,
    files: Arc<dyn StateFiles>,
}

impl FleetDir {
    /// Creates the registry in the directory `dir`, which need not exist.
    pub fn new(dir: impl Into<PathBuf>, files: Arc<dyn StateFiles>) -> Self {
        Self { dir: dir.into(), files }
    }

    /// Lists the conversations: those that wait for a person first, then by state and age. Outdated entries
    /// are removed; a file that is no valid entry is left alone.
    ///
    /// # Errors
    /// [`FleetError::Dir`] when the directory cannot be read.
    pub fn list(&self) -> Result<Vec<FleetView>, FleetError> {
        let failed = |source| FleetError::Dir { dir: self.dir.clone(), source };
        let read = match std::fs::read_dir(&self.dir) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut views = Vec::new();
        for found in read {
            let path = found.map_err(failed)?.path();
            if path.extension().is_some_and(|end| end == "json") {
                views.extend(self.view_entry(&path)?);
            }
        }
        views.sort_by(|one, other| {
            let key = |view: &FleetView| (view.state, view.entry.started_ms, view.entry.id.clone());
            key(one).cmp(&key(other))
        });
        Ok(views)
    }

    fn view_entry(&self, path: &Path) -> Result<Option<FleetView>, FleetError> {
        let Some(entry) = self.read_entry(path) else { return Ok(None) };
        let Some(lock) = self.files.try_lock(path)? else { return Ok(Some(FleetView::new(entry, true))) };
        // The owner may have closed its entry between the lock attempt and this read.
        let Some(mut entry) = self.read_entry(path) else {
            drop(lock);
            return Ok(None);
        };
        let now = now_ms();
        let is_old = entry.gone_ms.is_some_and(|gone| now.saturating_sub(gone) >= millis(ORPHAN_LIFETIME));
        if !entry.has_open_goal() && (entry.is_closed || entry.turns == 0 || is_old) {
            self.remove_files(&entry.id);
            return Ok(None);
        }
        if !entry.is_closed && entry.gone_ms.is_none() {
            entry.gone_ms = Some(now);
            // If the time cannot be stored, the orphan stays in the list for longer.
            let _ = self.write(&entry);
        }
        Ok(Some(FleetView::new(entry, false)))
    }

    fn read_entry(&self, path: &Path) -> Option<FleetEntry> {
        let bytes = self.files.read(path, MAX_ENTRY_BYTES).ok()??;
        let entry: FleetEntry = serde_json::from_slice(&bytes).ok()?;
        let is_own = entry.version == ENTRY_VERSION && path == self.entry_path(&entry.id) && is_id(&entry.id);
        is_own.then_some(entry)
    }

    /// Finds the conversation whose id, or whose session's id, begins with `id`.
    ///
    /// # Errors
    /// [`FleetError::Unknown`] or [`FleetError::Ambiguous`].
    pub fn find(&self, id: &str) -> Result<FleetView, FleetError> {
        let id = id.trim();
        let is_meant = |view: &FleetView| {
            let of_session =
                view.entry.session.as_ref().is_some_and(|session| session.as_str().starts_with(id));
            !id.is_empty() && (view.entry.id.starts_with(id) || of_session)
        };
        let mut found = self.list()?.into_iter().filter(is_meant);
        match (found.next(), found.next()) {
            (Some(view), None) => Ok(view),
            (Some(_), Some(_)) => Err(FleetError::Ambiguous(id.to_owned())),
            (None, _) => Err(FleetError::Unknown(id.to_owned())),
        }
    }

    /// Marks orphans that were not reported to a person as reported, and returns them.
    ///
    /// # Errors
    /// As [`FleetDir::list`].
    pub fn reconcile(&self) -> Result<Vec<FleetEntry>, FleetError> {
        let mut new = Vec::new();
        for view in self.list()? {
            let mut entry = view.entry;
            if view.state.is_alive() || entry.is_closed || entry.is_told {
                continue;
            }
            (entry.is_told, entry.is_running) = (true, false);
            entry.questions.clear();
            self.write(&entry)?;
            new.push(entry);
        }
        Ok(new)
    }

    /// Removes dead entries of a session, which another process continues.
    ///
    /// # Errors
    /// As [`FleetDir::list`].
    pub(super) fn remove_dead_entries(&self, session: &SessionId, own: &str) -> Result<(), FleetError> {
        for view in self.list()? {
            let is_left = !view.state.is_alive() && view.entry.id != own;
            if is_left && view.entry.session.as_ref() == Some(session) {
                self.remove_files(&view.entry.id);
            }
        }
        Ok(())
    }

    /// Removes the entry of a conversation whose process is gone.
    ///
    /// # Errors
    /// [`FleetError::Alive`] when the process is alive.
    pub fn forget(&self, view: &FleetView) -> Result<(), FleetError> {
        let entry = &view.entry;
        match self.files.try_lock(&self.entry_path(&entry.id))? {
            Some(_lock) => {
                self.remove_files(&entry.id);
                Ok(())
            }
            None => Err(FleetError::Alive { id: entry.id.clone(), pid: entry.pid }),
        }
    }

    /// Sends a request to a conversation whose process is alive.
    ///
    /// # Errors
    /// [`FleetError::Gone`] when the process is gone.
    pub fn send(&self, view: &FleetView, request: &FleetRequest) -> Result<(), FleetError> {
        if !view.state.is_alive() {
            return Err(FleetError::Gone { id: view.entry.id.clone() });
        }
        let path = self.requests_path(&view.entry.id);
        let _lock = self.files.lock(&path)?;
        let mut line = serde_json::to_vec(request).unwrap_or_default();
        line.push(b'\n');
        self.files.append(&path, &line)?;
        Ok(())
    }

    /// Takes the requests to a conversation. Invalid requests are dropped.
    pub(super) fn take_requests(&self, id: &str) -> Result<Vec<FleetRequest>, FleetError> {
        let path = self.requests_path(id);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let _lock = self.files.lock(&path)?;
        let bytes = self.files.read(&path, MAX_REQUESTS_BYTES);
        let _ = std::fs::remove_file(&path);
        let bytes = bytes?.unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    pub(super) fn lock(&self, id: &str) -> Result<StateLock, StateFileError> {
        self.files.lock(&self.entry_path(id))
    }

    /// Writes the present state of a conversation, without waiting for the disk.
    pub(super) fn publish(&self, entry: &FleetEntry) -> Result<(), StateFileError> {
        self.files.publish(&self.entry_path(&entry.id), &entry_bytes(entry))
    }

    /// Writes an entry that outlives its process.
    pub(super) fn write(&self, entry: &FleetEntry) -> Result<(), StateFileError> {
        self.files.replace(&self.entry_path(&entry.id), &entry_bytes(entry))
    }

    /// Removes the files of an entry. The caller holds the entry's lock.
    pub(super) fn remove_files(&self, id: &str) {
        let requests = self.requests_path(id);
        for path in [
            requests.with_extension("lock"),
            requests,
            self.entry_path(id),
            self.entry_path(id).with_extension("lock"),
        ] {
            // A file that remains is not listed, because its entry is gone.
            let _ = std::fs::remove_file(path);
        }
    }

    fn entry_path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn requests_path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}-requests.jsonl"))
    }
}

fn entry_bytes(entry: &FleetEntry) -> Vec<u8> {
    serde_json::to_vec_pretty(entry).unwrap_or_default()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whether a text is valid as an entry's id, which is part of file names.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 32 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
