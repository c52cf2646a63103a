use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use zk_core::service::{StateFileError, StateFiles, StateLock, make_private_dir};

use crate::WorktreeError;

/// Directory of the patches, beside the copies.
const PATCHES: &str = "patches";
/// Ending of the lock files of owners.
const LOCK_SUFFIX: &str = ".lock";
/// Age after which a kept patch is removed.
const MAX_PATCH_AGE: Duration = Duration::from_secs(14 * 24 * 3600);

/// Directory of this process for its copies, held by a lock as long as the process lives.
#[derive(Debug)]
pub(crate) struct Home {
    /// Directory of the copies.
    pub(crate) copies: PathBuf,
    /// Directory of the patches.
    pub(crate) patches: PathBuf,
    /// Name of this process in it.
    pub(crate) owner: String,
    lock: PathBuf,
    _held: Mutex<StateLock>,
}

impl Home {
    /// Makes the directory, and removes the copies of owners that are dead.
    pub(crate) fn open(root: &Path, files: &dyn StateFiles) -> Result<Self, WorktreeError> {
        let owner = format!("{}-{:08x}", std::process::id(), fastrand::u32(..));
        let (copies, patches) = (root.join(&owner), root.join(PATCHES));
        for dir in [root, &patches, &copies] {
            make_private_dir(dir).map_err(|error| WorktreeError::io("make", dir, error))?;
        }
        let lock = root.join(format!("{owner}{LOCK_SUFFIX}"));
        let held = files.lock(&lock).map_err(|error| WorktreeError::io("lock", &lock, error))?;
        let this = Self { copies, patches, owner, lock, _held: Mutex::new(held) };
        this.sweep(root, files);
        Ok(this)
    }

    /// Removes what dead owners left. A failure is no reason against a new copy.
    fn sweep(&self, root: &Path, files: &dyn StateFiles) {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == PATCHES || name.starts_with(&self.owner) {
                continue;
            }
            let owner = name.strip_suffix(LOCK_SUFFIX).unwrap_or(&name);
            let lock = root.join(format!("{owner}{LOCK_SUFFIX}"));
            match files.lock(&lock) {
                // Another process uses its copies.
                Err(StateFileError::Busy { .. }) => {}
                held => {
                    let _ = fs::remove_dir_all(root.join(owner));
                    let _ = fs::remove_file(&lock);
                    drop(held);
                }
            }
            let _ = path;
        }
        let is_old = |path: &Path| {
            let modified = fs::symlink_metadata(path).and_then(|meta| meta.modified());
            modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > MAX_PATCH_AGE))
        };
        for entry in fs::read_dir(&self.patches).into_iter().flatten().flatten() {
            if is_old(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.copies);
        let _ = fs::remove_file(&self.lock);
    }
}
