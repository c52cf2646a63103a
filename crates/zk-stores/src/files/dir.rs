use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{FlockOperation, flock};
use zk_core::service::{StateFileError, StateFiles, make_private_dir, open_regular};

use super::map::{KeyValue, MapError, MapLock};

/// Time limit of one operation on a file.
const LIMIT: Duration = Duration::from_secs(60);

/// Maximum size of a value in bytes.
const MAX_VALUE_BYTES: usize = 256 << 20;

/// Attempts to take a lock: a process that only looks for the lock's owner holds it for a moment.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// Map in a private directory: a file for each key, which is replaced atomically and synced.
///
/// Files have mode 0600, directories 0700. Locks need a local file system.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let dir = tempfile::tempdir().unwrap();
/// use std::sync::Arc;
/// use zk_exec::LocalStateFiles;
/// use zk_stores::{DirMap, KeyValue};
///
/// let map = DirMap::new(dir.path().join("sessions"), Arc::new(LocalStateFiles::default()));
/// map.save("s_1/meta.json", b"{}".to_vec()).await.unwrap();
/// assert_eq!(map.get("s_1/meta.json").await.unwrap().as_deref(), Some(&b"{}"[..]));
/// # });
/// ```
#[derive(Clone)]
pub struct DirMap {
    root: PathBuf,
    files: Arc<dyn StateFiles>,
}

impl fmt::Debug for DirMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirMap").field("root", &self.root).finish_non_exhaustive()
    }
}

impl DirMap {
    /// Map of the files under `root`, which need not exist yet.
    #[must_use]
    pub fn new(root: PathBuf, files: Arc<dyn StateFiles>) -> Self {
        Self { root, files }
    }

    /// Path of a key's file.
    fn path(&self, key: &str) -> Result<PathBuf, MapError> {
        let is_plain = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-%".contains(&byte);
            !part.is_empty() && !part.starts_with('.') && part.len() <= 255 && part.bytes().all(plain)
        };
        match key.split_once('/') {
            Some((dir, name)) if is_plain(dir) && is_plain(name) => Ok(self.root.join(dir).join(name)),
            Some(_) | None => {
                let why = io::Error::new(ErrorKind::InvalidInput, "it is no name of a session's file");
                Err(MapError::new("use the key", key, why))
            }
        }
    }
}

/// Runs `work`, which waits for the disk, on another thread.
async fn offload<T: Send + 'static>(
    doing: &'static str,
    key: &str,
    work: impl FnOnce() -> Result<T, MapError> + Send + 'static,
) -> Result<T, MapError> {
    let failed = |kind, why: &str| MapError::new(doing, key, io::Error::new(kind, why));
    match tokio::time::timeout(LIMIT, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(failed(ErrorKind::Other, "the thread that was to do it ended early")),
        Err(_) => Err(failed(ErrorKind::TimedOut, "the disk does not answer")),
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> MapError {
    let key = path.display().to_string();
    move |source| MapError::new(doing, key.clone(), source)
}

fn state_error(doing: &'static str, path: &Path, error: StateFileError) -> MapError {
    let source = match error {
        StateFileError::Io { source, .. } => source,
        StateFileError::Unusable { why, .. } => io::Error::other(why),
        busy @ StateFileError::Busy { .. } => io::Error::new(ErrorKind::WouldBlock, busy.to_string()),
    };
    MapError::new(doing, path.display().to_string(), source)
}

#[async_trait]
impl KeyValue for DirMap {
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, MapError> {
        let (path, files) = (self.path(key)?, self.files.clone());
        offload("read", key, move || {
            files.read(&path, MAX_VALUE_BYTES).map_err(|error| state_error("read", &path, error))
        })
        .await
    }

    async fn save(&self, key: &str, value: Vec<u8>) -> Result<(), MapError> {
        let (path, files) = (self.path(key)?, self.files.clone());
        offload("write", key, move || {
            files.replace(&path, &value).map_err(|error| state_error("write", &path, error))
        })
        .await
    }

    async fn delete(&self, key: &str) -> Result<(), MapError> {
        let path = self.path(key)?;
        offload("remove", key, move || {
            match std::fs::remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(io_error("remove", &path)(error)),
            }
            if let Some(dir) = path.parent() {
                // Fails for a directory with other files.
                let _ = std::fs::remove_dir(dir);
            }
            Ok(())
        })
        .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, MapError> {
        let (root, prefix) = (self.root.clone(), prefix.to_owned());
        offload("list", &root.display().to_string(), move || {
            // A regular file as store directory lists no sessions, so without this error the store would seem empty.
            if std::fs::metadata(&root).is_ok_and(|found| !found.is_dir()) {
                let why =
                    io::Error::new(ErrorKind::NotADirectory, "it is a file, and sessions need a directory");
                return Err(io_error("list", &root)(why));
            }
            let dirs = match prefix.split_once('/') {
                Some((dir, _)) => vec![dir.to_owned()],
                None => names(&root)?,
            };
            let mut keys = Vec::new();
            for dir in dirs {
                keys.extend(names(&root.join(&dir))?.into_iter().map(|name| format!("{dir}/{name}")));
            }
            keys.retain(|key| key.starts_with(&prefix));
            Ok(keys)
        })
        .await
    }

    async fn lock(&self, key: &str) -> Result<MapLock, MapError> {
        let path = self.path(key)?;
        offload("lock", key, move || take_lock(&path)).await
    }

    async fn holder(&self, key: &str) -> Result<Option<u32>, MapError> {
        let path = self.path(key)?;
        offload("read", key, move || {
            let Ok(file) = open_regular(OpenOptions::new().read(true), &path) else { return Ok(None) };
            Ok(match flock(&file, FlockOperation::NonBlockingLockShared) {
                Err(rustix::io::Errno::WOULDBLOCK) => Some(owner_pid(&file).unwrap_or_default()),
                Ok(()) | Err(_) => None,
            })
        })
        .await
    }
}

/// Names of the files in a directory; empty if it does not exist.
fn names(dir: &Path) -> Result<Vec<String>, MapError> {
    let failed = io_error("list", dir);
    let read = match std::fs::read_dir(dir) {
        Ok(read) => read,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in read {
        // A file name that is not UTF-8 is no key.
        names.extend(entry.map_err(&failed)?.file_name().into_string());
    }
    Ok(names)
}

fn take_lock(path: &Path) -> Result<MapLock, MapError> {
    let failed = io_error("lock", path);
    let mut pid = None;
    for attempt in 0..LOCK_ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(LOCK_PAUSE);
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        make_private_dir(path.parent().unwrap_or(Path::new("/"))).map_err(&failed)?;
        let file = match open_regular(&mut options, path) {
            Ok(file) => file,
            // A deletion has removed the directory meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // A deletion has removed the file meanwhile: nobody else sees its lock.
            Ok(()) if !is_still_at(&file, path) => {}
            Ok(()) => {
                let text = format!("{:>10}\n", std::process::id());
                file.write_all_at(text.as_bytes(), 0).map_err(&failed)?;
                return Ok(MapLock::Held(Box::new(file)));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => pid = owner_pid(&file),
            Err(error) => return Err(failed(error.into())),
        }
    }
    Ok(MapLock::Busy { pid: pid.unwrap_or_default() })
}

/// Whether the open file is still the one at `path`.
fn is_still_at(file: &File, path: &Path) -> bool {
    let place = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(own), Ok(there)) => place(own) == place(there),
        _ => false,
    }
}

/// Process id in a lock file.
fn owner_pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(64).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_lock_file_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s_1/session.lock");
        let held = take_lock(&path).unwrap();
        assert!(matches!(take_lock(&path), Ok(MapLock::Busy { .. })));
        let file = File::open(&path).unwrap();
        assert!(is_still_at(&file, &path));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_still_at(&file, &path));
        drop(held);
        assert!(matches!(take_lock(&path), Ok(MapLock::Held(_))));
    }
}
