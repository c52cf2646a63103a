use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use zk_core::service::make_private_dir;

use super::document::{Document, Flaw};
use super::{CredentialLock, CredentialStore, SetAside, StoreError, lock};
use crate::Credential;

/// Longest wait for the lock of another writer; a write takes milliseconds.
const WRITER: Duration = Duration::from_secs(10);
/// Longest wait for another process's refresh, longer than a refresh takes.
const REFRESH: Duration = Duration::from_secs(90);

/// Largest credential file, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Credential store in one JSON file that only its owner can read.
///
/// The file has mode 0600. Its directory is created with mode 0700 if it is missing; give the file a
/// directory of its own. A change is written to a temporary file and renamed, under a lock that other
/// processes respect; unknown fields are kept. A damaged file is never overwritten: reads report it, and the
/// next [`put`](CredentialStore::put) moves it aside and returns the new path.
///
/// ```no_run
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_auth::{Credential, CredentialStore, FileStore};
///
/// let store = FileStore::new("/home/me/.local/state/zk/auth/credentials.json");
/// if let Some(damaged) = store.put("anthropic", &Credential::ApiKey("sk-test".into())).await? {
///     eprintln!("the old file is now {}", damaged.path.display());
/// }
/// # Ok::<(), zk_auth::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct FileStore {
    path: Arc<PathBuf>,
}

impl FileStore {
    /// Store in the file at `path`; the file and its directory need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: Arc::new(path.into()) }
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the credential called `name`. Blocks on the file.
    ///
    /// # Errors
    /// [`StoreError`]; a missing credential is no error.
    pub fn read(&self, name: &str) -> Result<Option<Credential>, StoreError> {
        let entry = load_valid(&self.path)?.get(name);
        entry.map_err(|reason| StoreError::Entry {
            name: name.to_owned(),
            path: self.path.to_path_buf(),
            reason,
        })
    }

    /// Runs blocking `work` on another thread.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || work(&path)).await.unwrap_or(Err(StoreError::Ending))
    }
}

#[async_trait]
impl CredentialStore for FileStore {
    async fn get(&self, name: &str) -> Result<Option<Credential>, StoreError> {
        let (name, store) = (name.to_owned(), self.clone());
        self.blocking(move |_| store.read(&name)).await
    }

    async fn put(&self, name: &str, credential: &Credential) -> Result<Option<SetAside>, StoreError> {
        let (name, credential) = (name.to_owned(), credential.clone());
        self.blocking(move |path| {
            let _writer = lock_for_writing(path)?;
            let (mut document, aside) = match load(path)? {
                Ok(document) => (document, None),
                Err(Flaw::TooNew(found)) => return Err(too_new_error(path, found)),
                Err(Flaw::Damaged(reason)) => (Document::default(), Some(set_aside(path, reason)?)),
            };
            document.put(&name, &credential);
            write_atomically(path, &document.to_bytes())?;
            Ok(aside)
        })
        .await
    }

    async fn remove(&self, name: &str) -> Result<bool, StoreError> {
        let name = name.to_owned();
        self.blocking(move |path| {
            if !path.exists() {
                return Ok(false);
            }
            let _writer = lock_for_writing(path)?;
            let mut document = load_valid(path)?;
            let removed = document.remove(&name);
            if removed {
                write_atomically(path, &document.to_bytes())?;
            }
            Ok(removed)
        })
        .await
    }

    async fn names(&self) -> Result<Vec<String>, StoreError> {
        self.blocking(|path| Ok(load_valid(path)?.names())).await
    }

    async fn lock(&self, name: &str) -> Result<CredentialLock, StoreError> {
        let name = name.to_owned();
        let (file, path) = self
            .blocking(move |path| {
                make_dir(path)?;
                let path = with_ending(path, &format!(".{}.lock", file_name(&name)));
                Ok((lock::open(&path)?, path))
            })
            .await?;
        Ok(CredentialLock::new(lock::wait(file, &path, REFRESH).await?))
    }
}

/// Loads the file; the inner error is a damaged content, which the caller handles.
fn load(path: &Path) -> Result<Result<Document, Flaw>, StoreError> {
    let failed = |source| StoreError::Io { what: "read", path: path.to_owned(), source };
    let file = match OpenOptions::new().read(true).custom_flags(lock::NO_WAIT).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ok(Document::default())),
        Err(error) => return Err(failed(error)),
    };
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(failed(std::io::Error::other("it is no regular file")));
    }
    let mode = found.permissions().mode();
    if mode & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))
            .map_err(|source| StoreError::Exposed { path: path.to_owned(), source })?;
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(failed(std::io::Error::other(format!("it is larger than {MAX_FILE_BYTES} bytes"))));
    }
    Ok(Document::parse(&bytes))
}

/// Loads the file; fails if it is damaged.
fn load_valid(path: &Path) -> Result<Document, StoreError> {
    load(path)?.map_err(|flaw| match flaw {
        Flaw::Damaged(reason) => StoreError::Damaged { path: path.to_owned(), reason },
        Flaw::TooNew(found) => too_new_error(path, found),
    })
}

fn too_new_error(path: &Path, found: u64) -> StoreError {
    StoreError::TooNew { path: path.to_owned(), found }
}

fn lock_for_writing(path: &Path) -> Result<File, StoreError> {
    make_dir(path)?;
    let path = with_ending(path, ".lock");
    lock::wait_blocking(lock::open(&path)?, &path, WRITER)
}

fn make_dir(path: &Path) -> Result<(), StoreError> {
    let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) else { return Ok(()) };
    make_private_dir(dir).map_err(|source| StoreError::Io {
        what: "make the directory",
        path: dir.to_owned(),
        source,
    })
}

/// Writes the file atomically. The caller holds the writer's lock, so an existing temporary file is left from
/// a killed writer.
#[expect(clippy::disallowed_methods, reason = "credentials are written on threads that may block")]
fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    // A symbolic link to the file is kept.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let temporary = with_ending(&target, ".tmp");
    let written = write_new(&temporary, bytes).and_then(|()| fs::rename(&temporary, &target));
    if let Err(source) = written {
        let _ = fs::remove_file(&temporary);
        return Err(StoreError::Io { what: "write", path: target, source });
    }
    if let Some(dir) = target.parent().and_then(|dir| File::open(dir).ok()) {
        // Some file systems cannot sync a directory; the rename is atomic in any case.
        let _ = dir.sync_all();
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "credentials are written on threads that may block")]
fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Renames a damaged file to an unused name. The caller holds the writer's lock.
fn set_aside(path: &Path, reason: String) -> Result<SetAside, StoreError> {
    let mut free =
        (1_u32..).map(|n| with_ending(path, &format!(".damaged-{n}"))).filter(|path| !path.exists());
    let to = free.next().unwrap_or_else(|| with_ending(path, ".damaged"));
    fs::rename(path, &to).map_err(|source| StoreError::Io {
        what: "set aside the damaged",
        path: path.to_owned(),
        source,
    })?;
    Ok(SetAside { path: to, reason })
}

/// `path` with `ending` after the file name.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Encodes a credential's name for a file name; different names stay different.
fn file_name(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}
