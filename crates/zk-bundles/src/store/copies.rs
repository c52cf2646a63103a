//! Private copies of a project's bundles: locks that mark them as used, and the removal of unused ones.

use std::collections::BTreeSet;
use std::fs::{DirEntry, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::service::{StateFiles, make_private_dir};

use super::{StoreError, remove_dir};
use crate::tree::TreeError;

/// Lock file that every process which uses copies of the project holds a shared lock on.
const IN_USE_FILE: &str = "in-use";

/// Maximum number of directory entries that are checked at one start.
const MAX_ENTRIES: usize = 256;

/// Maximum number of copies that are removed at one start; later starts remove the rest.
const MAX_REMOVED_COPIES: usize = 32;

/// Marks the copies below `dir`, the directory of one project, as used until the returned file is dropped. Before
/// that, copies that are not in `kept` are removed, unless another process uses copies of this project.
///
/// # Errors
/// [`StoreError`] when the directory cannot be used, or another process holds its lock for too long.
pub(super) fn use_copies(
    dir: &Path,
    kept: &BTreeSet<PathBuf>,
    state: &dyn StateFiles,
) -> Result<Arc<File>, StoreError> {
    let io = |path: &Path, source| StoreError::Tree(TreeError::Write { path: path.to_path_buf(), source });
    make_private_dir(dir).map_err(|error| io(dir, error))?;
    let path = dir.join(IN_USE_FILE);
    // Processes that start at the same time do the following one after another.
    let _turn = state.lock(&path)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| io(&path, error))?;
    if file.try_lock().is_ok() {
        remove_unused(dir, kept);
    }
    // An exclusive lock is only held under the lock above, so a shared lock is available.
    file.try_lock_shared().map_err(|error| io(&path, error.into()))?;
    Ok(Arc::new(file))
}

/// Removes the copies below `dir` that are not in `kept`. A copy that cannot be removed is left for the next start.
fn remove_unused(dir: &Path, kept: &BTreeSet<PathBuf>) {
    let bundles = subdirectories(dir);
    let copies = bundles.iter().flat_map(|bundle| subdirectories(&bundle.join("kept")));
    for copy in copies.filter(|copy| !kept.contains(copy)).take(MAX_REMOVED_COPIES) {
        let _ = remove_dir(&copy);
    }
}

/// Directories in `dir`, without links.
fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(dir).into_iter().flatten().take(MAX_ENTRIES).flatten();
    let is_dir = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    found.filter(is_dir).map(|entry| entry.path()).collect()
}
