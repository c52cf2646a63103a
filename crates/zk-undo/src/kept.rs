//! Files of runs in a directory that all workers share: contents by their hash, and a manifest for each checkpoint.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use zk_core::service::{Checkpoint, CheckpointOf, WorkspaceError, WorkspaceRef, Workspaces, visible_line};

use crate::objects::{Objects, is_hash};
use crate::path_text::SavedPath;
use crate::state::Content;
use crate::workspace::beneath::Place;
use crate::workspace::scan::Scan;
use crate::workspace::snapshot::{Known, Snapshot};
use crate::{FileState, UndoError, UndoSettings};

/// Store kind in a [`WorkspaceRef`], before the colon.
const KIND: &str = "files";

/// Newest format of manifests.
const FORMAT: u32 = 1;

/// Longest time in which a directory is read.
const READ_LIMIT: Duration = Duration::from_secs(600);

/// Maximum size of a manifest in bytes.
const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// Permission bits that zk itself needs in a directory whose files it changes.
const OWNER_BITS: u32 = 0o700;

/// Store of the files of runs in a shared directory, for directories with or without a repository.
///
/// Carries permission bits and empty directories. What a `.gitignore` of the directory ignores stays behind, even if a
/// repository tracks it.
#[derive(Clone)]
pub struct FileWorkspaces(Arc<Shared>);

struct Shared {
    place: PathBuf,
    objects: Objects,
    settings: UndoSettings,
    excluded: Vec<PathBuf>,
    /// Snapshots of the last checkpoints, so that unchanged files are not read again.
    last: Mutex<HashMap<PathBuf, Snapshot>>,
}

impl std::fmt::Debug for FileWorkspaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWorkspaces").field("place", &self.0.place).finish_non_exhaustive()
    }
}

/// Files of a checkpoint, by their paths relative to the directory.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    files: BTreeMap<SavedPath, FileState>,
}

impl FileWorkspaces {
    /// Creates a store in `place`, an existing directory that all workers share. `excluded` directories are never read, such as
    /// that of zk's own state.
    pub fn new(place: impl Into<PathBuf>, excluded: impl IntoIterator<Item = PathBuf>) -> Self {
        let place = place.into();
        let excluded = excluded.into_iter().chain([place.clone()]).collect();
        let settings = UndoSettings {
            max_file_bytes: u64::MAX,
            max_files: u64::MAX,
            max_journal_bytes: u64::MAX,
            ..UndoSettings::default()
        };
        let objects = Objects::lasting(place.join("objects"));
        Self(Arc::new(Shared { place, objects, settings, excluded, last: Mutex::default() }))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Shared) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let shared = self.0.clone();
        let done = tokio::task::spawn_blocking(move || {
            // A directory that is not there is not made: it may be a mount that is missing.
            match std::fs::metadata(&shared.place) {
                Ok(found) if found.is_dir() => task(&shared),
                Ok(_) => Err(shared.unreachable("it is no directory")),
                Err(error) => Err(shared.unreachable(&error.to_string())),
            }
        });
        done.await.map_err(|error| self.0.unreachable(&error.to_string()))?
    }
}

impl Shared {
    fn unreachable(&self, why: &str) -> WorkspaceError {
        WorkspaceError::Unreachable { place: self.place.display().to_string(), why: why.to_owned() }
    }

    /// Failure to read the directory, or to write into the store.
    fn failure(&self, error: &UndoError) -> WorkspaceError {
        match error {
            UndoError::Io { doing, path, source } if !path.starts_with(&self.place) => {
                WorkspaceError::io(doing, path, source)
            }
            error => self.unreachable(&error.to_string()),
        }
    }

    fn scan(&self) -> Scan<'_> {
        let (objects, settings, excluded) = (&self.objects, &self.settings, &self.excluded[..]);
        Scan { objects, settings, excluded, git: None, limit: READ_LIMIT }
    }

    fn keep(&self, dir: &Path) -> Result<Checkpoint, WorkspaceError> {
        let unsuitable = |why: String| WorkspaceError::Unsuitable {
            dir: dir.to_owned(),
            why: format!("{why}; name another"),
        };
        let root = dir.canonicalize().map_err(|error| unsuitable(error.to_string()))?;
        if self.place.starts_with(&root) {
            return Err(unsuitable(format!("the store {} is in it", self.place.display())));
        }
        let before = self.last().remove(&root);
        let snapshot = self.scan().run(&root, before.as_ref()).map_err(|error| self.failure(&error))?;
        let mut left_out = snapshot.left_out.reasons();
        let mut files = BTreeMap::new();
        for (path, Known { state, .. }) in &snapshot.files {
            match state {
                FileState::File { content: Content::Kept { .. }, .. }
                | FileState::Directory { .. }
                | FileState::Link { .. } => _ = files.insert(SavedPath(path.clone()), state.clone()),
                FileState::Other => {
                    left_out.push(format!(
                        "{} (neither a file nor a link)",
                        visible_line(&path.to_string_lossy())
                    ));
                }
                // The scan has the reasons for which contents are left out.
                FileState::File { .. } | FileState::Absent => {}
            }
        }
        let manifest = serde_json::to_vec(&Manifest { format: FORMAT, files })
            .map_err(|error| self.unreachable(&error.to_string()))?;
        let kept = self.objects.put(&manifest).map_err(|error| self.failure(&error))?;
        let hash = kept.ok_or_else(|| self.unreachable("it is full"))?;
        self.last().insert(root, snapshot);
        Ok(Checkpoint { reference: WorkspaceRef::new(&format!("{KIND}:{hash}"))?, left_out })
    }

    fn last(&self) -> MutexGuard<'_, HashMap<PathBuf, Snapshot>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn manifest(&self, reference: &WorkspaceRef) -> Result<BTreeMap<SavedPath, FileState>, WorkspaceError> {
        let hash = reference.rest_of(KIND)?;
        if !is_hash(hash) {
            return Err(WorkspaceError::InvalidReference(reference.to_string()));
        }
        if !self.objects.has(hash) {
            let place = self.place.display().to_string();
            return Err(WorkspaceError::NotFound { reference: reference.clone(), place });
        }
        let damaged = |why: String| WorkspaceError::Damaged { reference: reference.clone(), why };
        let file = self.objects.open(hash).map_err(|error| damaged(error.to_string()))?;
        let limited = io::Read::take(file, MAX_MANIFEST_BYTES);
        let manifest: Manifest = serde_json::from_reader(io::BufReader::new(limited))
            .map_err(|error| damaged(error.to_string()))?;
        if manifest.format > FORMAT {
            return Err(damaged("a newer zk wrote them; update zk on this machine".to_owned()));
        }
        let is_below = |path: &Path| {
            path.components().all(|part| matches!(part, Component::Normal(name) if name != ".git"))
        };
        match manifest.files.keys().find(|SavedPath(path)| !is_below(path)) {
            Some(SavedPath(path)) => {
                Err(damaged(format!("they name {}", visible_line(&path.to_string_lossy()))))
            }
            None => Ok(manifest.files),
        }
    }

    fn restore(&self, reference: &WorkspaceRef, dir: &Path) -> Result<(), WorkspaceError> {
        let wanted = self.manifest(reference)?;
        std::fs::create_dir_all(dir).map_err(|error| WorkspaceError::io("make", dir, error))?;
        let root = dir.canonicalize().map_err(|error| WorkspaceError::io("find", dir, error))?;
        let now = self.scan().run(&root, None).map_err(|error| self.failure(&error))?;
        let fail = |path: &Path, errno: Errno| WorkspaceError::io("bring back", path, io::Error::from(errno));
        let is_dir = |path: &Path| wanted.get(path).is_some_and(FileState::is_directory);
        for (path, known) in &now.files {
            if let FileState::Directory { mode } = known.state
                && mode & OWNER_BITS != OWNER_BITS
            {
                let whole = root.join(path);
                Place::of(&whole)
                    .and_then(|place| place.set_mode(mode | OWNER_BITS))
                    .map_err(|errno| fail(&whole, errno))?;
            }
        }
        // The order of paths, from the last to the first, has the files of a directory before the directory.
        for (path, known) in now.files.iter().rev() {
            let is_same = wanted.get(path.as_path()) == Some(&known.state);
            if is_same || !known.state.exists() || known.state.is_directory() && is_dir(path) {
                continue;
            }
            let whole = root.join(path);
            let removed = Place::of(&whole).and_then(|place| match known.state {
                FileState::Directory { .. } => place.remove_dir(),
                FileState::Absent | FileState::File { .. } | FileState::Link { .. } | FileState::Other => {
                    place.remove_file()
                }
            });
            match removed {
                // Ignored files are in it, and no file takes its place.
                Err(Errno::NOTEMPTY | Errno::EXIST) if !wanted.contains_key(path.as_path()) => {}
                removed => removed.map_err(|errno| fail(&whole, errno))?,
            }
        }
        for (SavedPath(path), state) in &wanted {
            if now.files.get(path).is_some_and(|known| known.state == *state) {
                continue;
            }
            let whole = root.join(path);
            let place = Place::of(&whole).map_err(|errno| fail(&whole, errno))?;
            match state {
                FileState::Directory { .. } => match place.make_dir() {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(fail(&whole, errno)),
                },
                FileState::Link { target } => place.make_link(target).map_err(|errno| fail(&whole, errno))?,
                FileState::File { mode, content: Content::Kept { hash }, .. } => {
                    self.write_content(reference, &whole, hash, *mode)?;
                }
                FileState::File { .. } | FileState::Absent | FileState::Other => {}
            }
        }
        // Modes of directories are set last, since a read-only one cannot be filled.
        for (SavedPath(path), state) in wanted.iter().rev() {
            if let FileState::Directory { mode } = state {
                let whole = root.join(path);
                Place::of(&whole)
                    .and_then(|place| place.set_mode(*mode))
                    .map_err(|errno| fail(&whole, errno))?;
            }
        }
        Ok(())
    }

    /// Writes a content beside its path, and renames it.
    fn write_content(
        &self,
        reference: &WorkspaceRef,
        path: &Path,
        hash: &str,
        mode: u32,
    ) -> Result<(), WorkspaceError> {
        let mut content = self.objects.open(hash).map_err(|error| WorkspaceError::Damaged {
            reference: reference.clone(),
            why: error.to_string(),
        })?;
        let fail = |error: io::Error| WorkspaceError::io("bring back", path, error);
        let to = Place::of(path).map_err(|errno| fail(errno.into()))?;
        let beside = path.with_file_name(format!(".zk-kept-{}.tmp", std::process::id()));
        let temporary = Place::of(&beside).map_err(|errno| fail(errno.into()))?;
        // Left by a process that was killed.
        let _ = temporary.remove_file();
        let written = temporary.create().map_err(io::Error::from).and_then(|mut file| {
            io::copy(&mut content, &mut file)?;
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
            Ok(rustix::fs::renameat(&temporary.dir, &*temporary.name, &to.dir, &*to.name)?)
        });
        written.map_err(|error| {
            let _ = temporary.remove_file();
            fail(error)
        })
    }
}

#[async_trait]
impl Workspaces for FileWorkspaces {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn checkpoint(&self, dir: &Path, _: &CheckpointOf) -> Result<Checkpoint, WorkspaceError> {
        let dir = dir.to_owned();
        self.blocking(move |shared| shared.keep(&dir)).await
    }

    async fn materialise(&self, reference: &WorkspaceRef, dir: &Path) -> Result<(), WorkspaceError> {
        let (reference, dir) = (reference.clone(), dir.to_owned());
        self.blocking(move |shared| shared.restore(&reference, &dir)).await
    }

    async fn forget(&self, dir: &Path) {
        if let Ok(root) = dir.canonicalize() {
            self.0.last().remove(&root);
        }
    }
}
