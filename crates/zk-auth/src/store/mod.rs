//! Stores of credentials.

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

/// Keeps one credential for each provider. What another process stores is seen by the next [`get`](Self::get).
#[async_trait]
pub trait CredentialStore: Send + Sync {
    /// The credential called `name`.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read; one that is not there is no error.
    async fn get(&self, name: &str) -> Result<Option<Credential>, StoreError>;

    /// Stores a credential in place of the one called `name`. It is safe on disk when this returns.
    ///
    /// # Errors
    /// [`StoreError`]; what was stored before is still there then.
    async fn put(&self, name: &str, credential: &Credential) -> Result<Option<SetAside>, StoreError>;

    /// Removes the credential called `name`, and says whether there was one.
    ///
    /// # Errors
    /// [`StoreError`]; it is still there then.
    async fn remove(&self, name: &str) -> Result<bool, StoreError>;

    /// The names there are, in order.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    async fn names(&self) -> Result<Vec<String>, StoreError>;

    /// Waits until nobody else, in this process or another, holds the lock of `name`. It keeps others from
    /// refreshing at the same time, not from reading or storing.
    ///
    /// # Errors
    /// [`StoreError::Busy`] after a time longer than any refresh takes.
    async fn lock(&self, name: &str) -> Result<CredentialLock, StoreError>;
}

/// Lock of one credential, held for as long as this value lives.
pub struct CredentialLock(#[expect(dead_code, reason = "dropping it is what it is for")] Box<dyn Any + Send>);

impl CredentialLock {
    /// A lock that is let go when `guard` is dropped.
    pub fn new(guard: impl Send + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for CredentialLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialLock")
    }
}

/// A damaged file that had to make room. Nothing of it was lost: tell the person where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Path of the file now.
    pub path: PathBuf,
    /// Fault of the file, in words.
    pub reason: String,
}

/// Reason why a store did not do what it was asked. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be read or written.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// Action that was tried: `read`, `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The file is not what a store writes. It is left as it is until something is stored.
    #[error(
        "{path} is damaged ({reason}): repair it, or sign in again, which sets it aside and begins a new one"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Fault of the file, in words.
        reason: String,
    },
    /// A later zk wrote the file.
    #[error("{path} was written by a later zk (format {found}): update this one")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Format of the file.
        found: u64,
    },
    /// An entry is of a kind, or has a shape, that this zk does not know.
    #[error("the entry `{name}` of {path} cannot be used ({reason}): sign in again, or store the key again")]
    Entry {
        /// The entry.
        name: String,
        /// The file.
        path: PathBuf,
        /// Fault of the entry, in words.
        reason: String,
    },
    /// Others can read the file, and that cannot be changed.
    #[error("others can read {path}, and its mode cannot be changed ({source}): run `chmod 600` on it")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Cause of the failure to change its mode.
        source: std::io::Error,
    },
    /// Another process holds a lock for too long.
    #[error("another zk has held {path} for {} s: end it and try again", waited.as_secs())]
    Busy {
        /// The lock.
        path: PathBuf,
        /// Time that was waited.
        waited: Duration,
    },
    /// The task that did the work ended: the program is ending.
    #[error("the credentials were not stored because the program is ending")]
    Ending,
}
