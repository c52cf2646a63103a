use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Store of a person's approvals of parts of a project: settings, MCP servers, skills, hooks.
/// `cx.service::<dyn Trust>()`.
///
/// An approval holds for exact bytes: any change needs a new one. Without the service, and if the store
/// cannot be read, nothing is trusted.
pub trait Trust: Send + Sync {
    /// Whether exactly these bytes were approved for this project.
    fn is_trusted(&self, item: &TrustItem<'_>) -> bool;

    /// Checks [`is_trusted`](Self::is_trusted) for each item, in order. A store on disk is read once for all.
    fn are_trusted(&self, items: &[TrustItem<'_>]) -> Vec<bool> {
        items.iter().map(|item| self.is_trusted(item)).collect()
    }

    /// Approves exactly these bytes.
    ///
    /// # Errors
    /// [`TrustError`] when the approval cannot be stored.
    fn approve(&self, item: &TrustItem<'_>) -> Result<(), TrustError>;

    /// Revokes the approvals of all bytes that were ever approved under this name.
    ///
    /// # Errors
    /// [`TrustError`] when the change cannot be stored.
    fn revoke(&self, project: &Path, kind: &str, name: &str) -> Result<(), TrustError>;
}

impl dyn Trust {
    /// Runs [`Trust::approve`] on a blocking thread, since the store waits for the disk and for other
    /// processes.
    ///
    /// # Errors
    /// [`TrustError`] when the approval cannot be stored.
    pub async fn approve_in_background(self: Arc<Self>, item: &TrustItem<'_>) -> Result<(), TrustError> {
        let (project, bytes) = (item.project.to_owned(), item.bytes.to_owned());
        let (kind, name) = (item.kind.to_owned(), item.name.to_owned());
        let approve = move || {
            let item = TrustItem { project: &project, kind: &kind, name: &name, bytes: &bytes };
            self.approve(&item)
        };
        tokio::task::spawn_blocking(approve).await.unwrap_or_else(|error| {
            let source = std::io::Error::other(error.to_string());
            Err(TrustError::Io { path: item.project.to_owned(), source })
        })
    }
}

/// Part of a project that has to be approved before it takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustItem<'a> {
    /// Canonical path of the project's root.
    pub project: &'a Path,
    /// Kind of the item: `settings`, `mcp`, `skill`, `hook`.
    pub kind: &'a str,
    /// Name of the item within its kind; for files a path relative to the project.
    pub name: &'a str,
    /// Exact bytes that take effect.
    pub bytes: &'a [u8],
}

/// Reason for which an approval or its revocation was not stored.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The store cannot be read, and is not overwritten either.
    #[error(
        "the trust store {path} is not usable ({why}); nothing is trusted until it is repaired or removed"
    )]
    Unusable {
        /// Path of the store.
        path: PathBuf,
        /// Reason for which the store cannot be read.
        why: String,
    },
    /// The file system reported an error.
    #[error("cannot write the trust store {path}: {source}")]
    Io {
        /// Path of the store.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
}
