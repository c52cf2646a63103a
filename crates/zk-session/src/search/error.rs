use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use zk_core::service::StoreError;

use crate::sqlite::error::is_damage;

/// Error of a search.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The text contains nothing to search for.
    #[error("there is nothing to search for in `{0}`: give at least one letter or digit")]
    Nothing(String),
    /// A newer version of zk wrote the index.
    #[error(
        "a newer zk wrote the search index {path} (format {found}, this zk reads {known}); use that zk, or delete the file"
    )]
    TooNew {
        /// Path of the index.
        path: PathBuf,
        /// Format version of the index.
        found: u32,
        /// Format version that this program knows.
        known: u32,
    },
    /// The sessions cannot be listed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index cannot be used.
    #[error("cannot {doing} the search index {path}: {source}")]
    Index {
        /// Action that failed, as a verb.
        doing: &'static str,
        /// Path of the index.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The index is damaged. It is built anew by the next search.
    #[error("the search index {path} is damaged: {why}")]
    Damaged {
        /// Path of the index.
        path: PathBuf,
        /// Description of the damage.
        why: String,
    },
}

impl SearchError {
    pub(super) fn index(doing: &'static str, path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
            Some(ErrorCode::ReadOnly) => io::ErrorKind::ReadOnlyFilesystem,
            Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => io::ErrorKind::PermissionDenied,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => io::ErrorKind::ResourceBusy,
            Some(ErrorCode::SystemIoFailure) if !is_damage(error) => io::ErrorKind::Other,
            _ => return Self::Damaged { path, why: error.to_string() },
        };
        Self::Index { doing, path, source: io::Error::new(kind, error.to_string()) }
    }
}
