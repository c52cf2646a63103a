use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// State files: trust, approvals, accepted lists of tools, and what else a person decided.
///
/// Permissions, atomic replacement and locks are the same in every implementation: a file is readable and writable by
/// its owner alone, as is a directory made for it; one that somebody else owns or can write is refused; a file is
/// replaced whole or not at all, and is on the disk afterwards; a lock is waited for only so long. Calls block, also for
/// as long as the disk does: whoever serves a screen makes them on a thread that may block.
pub trait StateFiles: Send + Sync + fmt::Debug {
    /// Content of the file at `path`, of at most `max_bytes`; nothing where there is none.
    ///
    /// # Errors
    /// [`StateFileError::Unusable`].
    fn read(&self, path: &Path, max_bytes: usize) -> Result<Option<Vec<u8>>, StateFileError>;

    /// Puts `bytes` in the place of the file at `path`. Its directory is made where it is absent.
    ///
    /// # Errors
    /// [`StateFileError::Io`]; the file is as it was then.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StateFileError>;

    /// Appends `bytes` to the file at `path` in one write, and returns its size. It is made, with its directory, where it
    /// is absent.
    ///
    /// # Errors
    /// [`StateFileError::Io`], also for a link or a pipe in its place.
    fn append(&self, path: &Path, bytes: &[u8]) -> Result<u64, StateFileError>;

    /// Keeps other processes from changing the file at `path`, until the lock is dropped. Reading needs none.
    ///
    /// # Errors
    /// [`StateFileError::Busy`] when another process has it for too long, [`StateFileError::Io`].
    fn lock(&self, path: &Path) -> Result<StateLock, StateFileError>;
}

/// The right to change one file; it ends when this is dropped, or with the process.
#[must_use = "the lock ends when it is dropped"]
pub struct StateLock(#[expect(dead_code, reason = "it is held, not read")] Box<dyn Any + Send>);

impl StateLock {
    /// A lock that lasts as long as `held`.
    pub fn holding(held: impl Any + Send) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for StateLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateLock").finish_non_exhaustive()
    }
}

/// Error of a file of state.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// Something is there, and nothing in it counts.
    #[error("{} is not usable: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Reason for which the file is not usable.
        why: String,
    },
    /// Another process holds its lock.
    #[error("another zk has been writing {} for {} ms; try again", path.display(), waited.as_millis())]
    Busy {
        /// The file.
        path: PathBuf,
        /// Time that it was waited for.
        waited: Duration,
    },
    /// The system said no.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// Act that failed, as a verb.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}

impl StateFileError {
    /// The error as one of the disk, for a caller that names the file by itself.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Io { source, .. } => source,
            busy @ Self::Busy { .. } => io::Error::new(io::ErrorKind::ResourceBusy, busy.to_string()),
            Self::Unusable { why, .. } => io::Error::other(why),
        }
    }
}
