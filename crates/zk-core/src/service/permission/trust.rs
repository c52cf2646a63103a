use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Approvals that a person gave to parts of a project: settings, MCP servers, skills, hooks. One store for
/// all of them; `cx.service::<dyn Trust>()`.
///
/// Approval is for exact bytes: any change needs a new one. Without the service, and whenever the store cannot
/// be read, nothing is trusted.
pub trait Trust: Send + Sync {
    /// Whether exactly these bytes were approved for this project.
    fn is_trusted(&self, item: &TrustItem<'_>) -> bool;

    /// [`is_trusted`](Self::is_trusted) of each item, in their order. A store on a disk is read once for all.
    fn are_trusted(&self, items: &[TrustItem<'_>]) -> Vec<bool> {
        items.iter().map(|item| self.is_trusted(item)).collect()
    }

    /// Approves exactly these bytes.
    ///
    /// # Errors
    /// [`TrustError`] when that cannot be stored.
    fn approve(&self, item: &TrustItem<'_>) -> Result<(), TrustError>;

    /// Takes an approval back; all bytes ever approved under this name.
    ///
    /// # Errors
    /// [`TrustError`] when that cannot be stored.
    fn revoke(&self, project: &Path, kind: &str, name: &str) -> Result<(), TrustError>;
}

impl dyn Trust {
    /// Approves as [`Trust::approve`] does, on a thread that may block: the store waits for the disk, and for
    /// other processes.
    ///
    /// # Errors
    /// [`TrustError`] when that cannot be stored.
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

/// Something of a project that has to be approved before it takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustItem<'a> {
    /// The project's root, canonical.
    pub project: &'a Path,
    /// Kind of the item: `settings`, `mcp`, `skill`, `hook`.
    pub kind: &'a str,
    /// Name of the item among its kind; a path relative to the project for files.
    pub name: &'a str,
    /// The exact bytes that take effect.
    pub bytes: &'a [u8],
}

/// Reason for which an approval was not stored.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The store cannot be read, so it is not overwritten either.
    #[error(
        "the trust store {path} is not usable ({why}); nothing is trusted until it is repaired or removed"
    )]
    Unusable {
        /// The store.
        path: PathBuf,
        /// Reason for which the store is not usable.
        why: String,
    },
    /// The disk said no.
    #[error("cannot write the trust store {path}: {source}")]
    Io {
        /// The store.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
}
