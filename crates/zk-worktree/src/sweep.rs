use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use zk_core::service::{StateFileError, StateFiles, StateLock, make_private_dir};

use crate::WorktreeError;

/// Name of the directory of patches, beside the copies.
pub(crate) const PATCHES: &str = "patches";
/// Extension of the lock files of owners.
const LOCK_SUFFIX: &str = ".lock";
/// Maximum number of owner names that a process tries to lock before it fails.
const MAX_OWNERS: usize = 8;
/// Age after which a kept patch is removed.
const MAX_PATCH_AGE: Duration = Duration::from_secs(14 * 24 * 3600);

/// Directory of this process for its copies, held by a lock as long as the process lives.
#[derive(Debug)]
pub(crate) struct Home {
    /// Directory of the copies.
    pub(crate) copies: PathBuf,
    pub(crate) patches: PathBuf,
    /// Owner name of this process, which is a part of its directory and file names.
    pub(crate) owner: String,
    lock: PathBuf,
    _held: Mutex<StateLock>,
}

impl Home {
    /// Creates the directory of this process, and removes the copies of processes that have ended.
    pub(crate) fn open(root: &Path, files: &dyn StateFiles) -> Result<Self, WorktreeError> {
        let patches = root.join(PATCHES);
        for dir in [root, &patches] {
            make_private_dir(dir).map_err(|error| WorktreeError::io("make", dir, error))?;
        }
        let (owner, lock, held) = lock_owner_name(root, files)?;
        let copies = root.join(&owner);
        make_private_dir(&copies).map_err(|error| WorktreeError::io("make", &copies, error))?;
        let this = Self { copies, patches, owner, lock, _held: Mutex::new(held) };
        sweep_ended(root, files);
        Ok(this)
    }
}

/// Removes the copies of processes that have ended, and patches that have waited too long. A failure does not
/// prevent a new copy.
pub(crate) fn sweep_ended(root: &Path, files: &dyn StateFiles) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == PATCHES {
            continue;
        }
        let owner = name.strip_suffix(LOCK_SUFFIX).unwrap_or(&name);
        let lock = root.join(format!("{owner}{LOCK_SUFFIX}"));
        // Without the lock, a process may use its copies, this one included.
        if let Ok(Some(held)) = files.try_lock(&lock) {
            let _ = fs::remove_dir_all(root.join(owner));
            let _ = fs::remove_file(&lock);
            drop(held);
        }
    }
    let is_old = |path: &Path| {
        let modified = fs::symlink_metadata(path).and_then(|meta| meta.modified());
        modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > MAX_PATCH_AGE))
    };
    for entry in fs::read_dir(root.join(PATCHES)).into_iter().flatten().flatten() {
        if is_old(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Locks a new owner name for this process in `root`, before any file exists that the lock guards.
fn lock_owner_name(
    root: &Path,
    files: &dyn StateFiles,
) -> Result<(String, PathBuf, StateLock), WorktreeError> {
    for _ in 0..MAX_OWNERS {
        let owner = format!("{}-{:08x}", std::process::id(), fastrand::u32(..));
        let lock = root.join(format!("{owner}{LOCK_SUFFIX}"));
        let failed = |error: StateFileError| WorktreeError::io("lock", &lock, error);
        let held = files.lock(&lock).map_err(failed)?;
        // The sweep of another process may have removed the lock file just before it was locked here. Then a
        // second lock succeeds, and this one is void.
        if files.try_lock(&lock).map_err(failed)?.is_none() {
            return Ok((owner, lock, held));
        }
        let _ = fs::remove_file(&lock);
    }
    Err(WorktreeError::io("lock", root, "other processes remove each lock; try again"))
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.copies);
        let _ = fs::remove_file(&self.lock);
    }
}
