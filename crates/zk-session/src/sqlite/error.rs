use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use zk_core::model::SessionId;
use zk_core::service::StoreError;

/// Converts SQLite's error, with the action and the file.
pub(crate) fn store_error(
    error: &rusqlite::Error,
    doing: &'static str,
    path: &Path,
    id: &SessionId,
) -> StoreError {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
        Some(ErrorCode::ReadOnly) => io::ErrorKind::ReadOnlyFilesystem,
        Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => io::ErrorKind::PermissionDenied,
        Some(ErrorCode::SystemIoFailure) => io::ErrorKind::Other,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => io::ErrorKind::ResourceBusy,
        _ if is_damage(error) => {
            let (id, why) = (id.clone(), error.to_string());
            return StoreError::Damaged { id, why, kept: path.to_path_buf() };
        }
        _ => return StoreError::Failed(format!("cannot {doing} {}: {error}", path.display())),
    };
    StoreError::Io { doing, path: path.to_path_buf(), source: io::Error::new(kind, error.to_string()) }
}

/// Failure of a write.
#[derive(Debug)]
pub(crate) enum WriteError {
    Sqlite(rusqlite::Error),
    /// A writer with a newer lease has the session.
    Fenced,
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Converts the failure of a write.
pub(crate) fn write_error(error: WriteError, path: &Path, id: &SessionId) -> StoreError {
    match error {
        WriteError::Sqlite(error) => store_error(&error, "write", path, id),
        WriteError::Fenced => StoreError::Fenced { id: id.clone() },
    }
}

/// Whether the error is about the file's content, not about the disk, permissions or another process.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _)
        | rusqlite::Error::SqlInputError { error: failure, .. } => {
            match failure.code {
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TooBig => true,
                // The file is shorter than its header says.
                ErrorCode::SystemIoFailure => failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ,
                // The file has other tables than our statements expect.
                ErrorCode::Unknown | ErrorCode::TypeMismatch => true,
                _ => false,
            }
        }
        // Wrong column type, invalid text, or a missing row.
        _ => true,
    }
}

/// Copies an error for the next caller that waited for the same transaction.
pub(super) fn copy_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::NotFound { id, hint } => StoreError::NotFound { id: id.clone(), hint: hint.clone() },
        StoreError::InUse { id, pid } => StoreError::InUse { id: id.clone(), pid: *pid },
        StoreError::Damaged { id, why, kept } => {
            StoreError::Damaged { id: id.clone(), why: why.clone(), kept: kept.clone() }
        }
        StoreError::TooNew { id, found, known } => {
            StoreError::TooNew { id: id.clone(), found: *found, known: *known }
        }
        StoreError::Io { doing, path, source } => {
            let source = io::Error::new(source.kind(), source.to_string());
            StoreError::Io { doing, path: path.clone(), source }
        }
        StoreError::Fenced { id } => StoreError::Fenced { id: id.clone() },
        StoreError::PostedBefore { id, mail } => {
            StoreError::PostedBefore { id: id.clone(), mail: mail.clone() }
        }
        StoreError::NoEntry { session, entry } => {
            StoreError::NoEntry { session: session.clone(), entry: entry.clone() }
        }
        StoreError::Refused(why) => StoreError::Refused(why.clone()),
        StoreError::Failed(why) => StoreError::Failed(why.clone()),
    }
}
