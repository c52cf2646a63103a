use std::any::Any;
use std::fmt;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Makes a directory that only its owner can use, with missing parents. An existing directory keeps its mode.
///
/// # Errors
/// The system's error when the directory cannot be made.
pub fn make_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Access to state files: trust, approvals, accepted tool lists and other decisions of a person.
///
/// Every implementation guarantees: a state file, and a directory created for it, is readable and writable by
/// its owner alone; a file that another user owns or can write is refused; a file is replaced atomically and
/// synced to disk; waiting for a lock has a time limit. Calls block, also on disk access: a program with a
/// user interface makes them on a blocking thread.
pub trait StateFiles: Send + Sync + fmt::Debug {
    /// Reads the file at `path`, of at most `max_bytes`; `None` if it does not exist.
    ///
    /// # Errors
    /// [`StateFileError::Unusable`] when the file exists and cannot be used.
    fn read(&self, path: &Path, max_bytes: usize) -> Result<Option<Vec<u8>>, StateFileError>;

    /// Replaces the file at `path` by `bytes`, and creates its directory if missing.
    ///
    /// # Errors
    /// [`StateFileError::Io`]; the old file is unchanged then.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StateFileError>;

    /// Replaces a file that describes the present state of a live process. After a crash of the machine the file may be
    /// old, empty or absent; readers meanwhile see the old or the new bytes. By default like
    /// [`StateFiles::replace`].
    ///
    /// # Errors
    /// [`StateFileError::Io`]; the old file is unchanged then.
    fn publish(&self, path: &Path, bytes: &[u8]) -> Result<(), StateFileError> {
        self.replace(path, bytes)
    }

    /// Appends `bytes` to the file at `path` in one write, and returns the new size, to which an append of
    /// another process at the same moment is not added. Creates the file and its directory if missing.
    ///
    /// # Errors
    /// [`StateFileError::Io`], also for a link or a pipe at `path`.
    fn append(&self, path: &Path, bytes: &[u8]) -> Result<u64, StateFileError>;

    /// Locks the file at `path` against changes by other processes, until the lock is dropped. Readers need
    /// no lock.
    ///
    /// # Errors
    /// [`StateFileError::Busy`] when another process holds the lock for too long, [`StateFileError::Io`].
    fn lock(&self, path: &Path) -> Result<StateLock, StateFileError>;

    /// Locks the file at `path` if no other process has it locked, without waiting; `None` if one has.
    ///
    /// # Errors
    /// [`StateFileError::Io`].
    fn try_lock(&self, path: &Path) -> Result<Option<StateLock>, StateFileError> {
        match self.lock(path) {
            Ok(lock) => Ok(Some(lock)),
            Err(StateFileError::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Exclusive right to change one file, until this is dropped or the process ends.
#[must_use = "the lock ends when it is dropped"]
pub struct StateLock(#[expect(dead_code, reason = "it is held, not read")] Box<dyn Any + Send>);

impl StateLock {
    /// Creates a lock that is released when `held` is dropped.
    pub fn holding(held: impl Any + Send) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for StateLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateLock").finish_non_exhaustive()
    }
}

/// Error of a state file.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The file exists, but its content cannot be used.
    #[error("{} is not usable: {why}", path.display())]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// Reason for which the content cannot be used.
        why: String,
    },
    /// Another process holds the lock of the file.
    #[error("another zk has been writing {} for {} ms; try again", path.display(), waited.as_millis())]
    Busy {
        /// Path of the file.
        path: PathBuf,
        /// Time that this process waited for the lock.
        waited: Duration,
    },
    /// The file system reported an error.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// Action that failed, as a verb.
        doing: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}

impl StateFileError {
    /// Converts to an I/O error, for a caller that adds the file's name itself.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Io { source, .. } => source,
            busy @ Self::Busy { .. } => io::Error::new(io::ErrorKind::ResourceBusy, busy.to_string()),
            Self::Unusable { why, .. } => io::Error::other(why),
        }
    }
}
