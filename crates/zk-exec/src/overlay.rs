use std::io::Read;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zk_core::service::{
    FileStat, FileWatch, Files, OnChange, PathError, Resolved, SearchFound, SearchQuery, WalkEntry,
    WalkOptions, WalkReport, WriteReceipt,
};

/// Files of another machine, except for one local directory: the results of a session.
#[derive(Clone)]
pub struct OverlaidFiles {
    below: Arc<dyn Files>,
    local: Arc<dyn Files>,
    directory: PathBuf,
}

impl std::fmt::Debug for OverlaidFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OverlaidFiles").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl OverlaidFiles {
    /// Sends paths in `directory`, absolute and canonical, to `local` and all others to `below`.
    #[must_use]
    pub fn new(below: Arc<dyn Files>, local: Arc<dyn Files>, directory: impl Into<PathBuf>) -> Self {
        Self { below, local, directory: directory.into() }
    }

    fn files_for(&self, path: &Path) -> &dyn Files {
        if path.starts_with(&self.directory) { &*self.local } else { &*self.below }
    }
}

impl Files for OverlaidFiles {
    fn roots(&self) -> Vec<PathBuf> {
        self.below.roots()
    }

    fn resolve(&self, cwd: &Path, path: &str) -> Result<Resolved, PathError> {
        let written = Path::new(path.trim_start_matches('@'));
        let resolved = self.files_for(written).resolve(cwd, path)?;
        if written.starts_with(&self.directory) && !resolved.path.starts_with(&self.directory) {
            // The path would be a file of that name on the other machine.
            let roots = self.directory.display().to_string();
            return Err(PathError::Outside { path: path.to_owned(), roots });
        }
        Ok(resolved)
    }

    fn open(&self, at: &Resolved, range: Option<Range<u64>>) -> Result<Box<dyn Read + Send>, PathError> {
        self.files_for(&at.path).open(at, range)
    }

    fn stat(&self, at: &Resolved) -> Result<FileStat, PathError> {
        self.files_for(&at.path).stat(at)
    }

    fn list(&self, at: &Resolved) -> Result<Vec<(String, FileStat)>, PathError> {
        self.files_for(&at.path).list(at)
    }

    fn walk(
        &self,
        from: &Resolved,
        options: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> Result<WalkReport, PathError> {
        self.files_for(&from.path).walk(from, options, visit)
    }

    fn search(
        &self,
        from: &Resolved,
        query: &SearchQuery,
        stop: &CancellationToken,
    ) -> Result<SearchFound, PathError> {
        self.files_for(&from.path).search(from, query, stop)
    }

    fn watch(&self, at: &Resolved, changed: OnChange) -> Result<Box<dyn FileWatch>, PathError> {
        self.files_for(&at.path).watch(at, changed)
    }

    fn write(&self, at: &Resolved, bytes: &[u8]) -> Result<WriteReceipt, PathError> {
        self.files_for(&at.path).write(at, bytes)
    }
}
