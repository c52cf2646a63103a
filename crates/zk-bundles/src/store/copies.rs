//! Private copies of a project's bundles: who uses them, and the removal of those that nobody uses.

use std::collections::BTreeSet;
use std::fs::{DirEntry, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::service::{StateFiles, make_private_dir};

use super::{StoreError, remove};
use crate::tree::TreeError;

/// File that every process which uses copies of the project holds a shared lock of.
const IN_USE_FILE: &str = "in-use";

/// Largest number of entries of a directory that one start looks at.
const MAX_ENTRIES: usize = 256;

/// Largest number of copies that one start removes; the next start goes on.
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
    // Processes that begin at the same time clean and mark one after another.
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
    // Nobody holds it alone outside of the turn above.
    file.try_lock_shared().map_err(|error| io(&path, error.into()))?;
    Ok(Arc::new(file))
}

/// Removes the copies below `dir` that are not in `kept`. A copy that cannot be removed is left for the next start.
fn remove_unused(dir: &Path, kept: &BTreeSet<PathBuf>) {
    let bundles = entries(dir);
    let copies = bundles.iter().flat_map(|bundle| entries(&bundle.join("kept")));
    for copy in copies.filter(|copy| !kept.contains(copy)).take(MAX_REMOVED_COPIES) {
        let _ = remove(&copy);
    }
}

/// Directories in `dir`, without links.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(dir).into_iter().flatten().take(MAX_ENTRIES).flatten();
    let is_dir = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    found.filter(is_dir).map(|entry| entry.path()).collect()
}
