//! Credential stores.

mod document;
mod file;
mod lock;
mod memory;

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

use super::Credential;

pub use file::FileStore;
pub use memory::MemoryStore;

/// Storage of one credential for each provider. [`get`](Self::get) sees changes by other processes.
#[async_trait]
pub trait CredentialStore: Send + Sync {
    /// Reads the credential called `name`.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read; a missing credential is no error.
    async fn get(&self, name: &str) -> Result<Option<Credential>, StoreError>;

    /// Stores a credential under `name`, replacing an earlier one. It is synced to disk on return.
    ///
    /// # Errors
    /// [`StoreError`]; the earlier credential is kept then.
    async fn put(&self, name: &str, credential: &Credential) -> Result<Option<SetAside>, StoreError>;

    /// Removes the credential called `name`; returns whether there was one.
    ///
    /// # Errors
    /// [`StoreError`]; the credential is kept then.
    async fn remove(&self, name: &str) -> Result<bool, StoreError>;

    /// Names of all credentials, sorted.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    async fn names(&self) -> Result<Vec<String>, StoreError>;

    /// Waits for the lock of `name`, which prevents concurrent refreshes in this and other processes. Reads
    /// and writes are not affected.
    ///
    /// # Errors
    /// [`StoreError::Busy`] after a time longer than a refresh takes.
    async fn lock(&self, name: &str) -> Result<CredentialLock, StoreError>;
}

/// Lock of one credential, released on drop.
pub struct CredentialLock(#[expect(dead_code, reason = "dropping it is what it is for")] Box<dyn Any + Send>);

impl CredentialLock {
    /// Lock that is released when `guard` is dropped.
    pub fn new(guard: impl Send + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for CredentialLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialLock")
    }
}

/// Damaged file that was moved aside, unchanged. Tell the person its new path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// New path of the file.
    pub path: PathBuf,
    /// Damage, in words.
    pub reason: String,
}

/// Error of a credential store. Error values contain no secrets.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be read or written.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// Failed action: `read` or `write`.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The file's content is invalid. It stays unchanged until a credential is stored.
    #[error(
        "{path} is damaged ({reason}): repair it, or sign in again, which sets it aside and begins a new one"
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Description of the damage.
        reason: String,
    },
    /// A newer version of zk wrote the file.
    #[error("{path} was written by a later zk (format {found}): update this one")]
    TooNew {
        /// Path of the file.
        path: PathBuf,
        /// Format version of the file.
        found: u64,
    },
    /// An entry has an unknown kind or form.
    #[error("the entry `{name}` of {path} cannot be used ({reason}): sign in again, or store the key again")]
    Entry {
        /// Name of the entry.
        name: String,
        /// Path of the file.
        path: PathBuf,
        /// Error in the entry, in words.
        reason: String,
    },
    /// Other users can read the file, and its mode cannot be changed.
    #[error("others can read {path}, and its mode cannot be changed ({source}): run `chmod 600` on it")]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Error of changing the mode.
        source: std::io::Error,
    },
    /// Another process holds a lock for too long.
    #[error("another zk has held {path} for {} s: end it and try again", waited.as_secs())]
    Busy {
        /// Path of the lock file.
        path: PathBuf,
        /// Time waited.
        waited: Duration,
    },
    /// The task was dropped because the program is ending.
    #[error("the credentials were not stored because the program is ending")]
    Ending,
}
