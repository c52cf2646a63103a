use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use zk_core::model::SessionId;
use zk_core::service::StoreError;

/// SQLite's error as the store reports it: what was done, on which file, why.
pub(super) fn store_error(
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

/// Whether the error says something about the bytes of the file, and not about the disk, the rights or another
/// process.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _)
        | rusqlite::Error::SqlInputError { error: failure, .. } => {
            match failure.code {
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TooBig => true,
                // The file is shorter than it says it is.
                ErrorCode::SystemIoFailure => failure.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ,
                // Our statements do not fit the tables that are there.
                ErrorCode::Unknown | ErrorCode::TypeMismatch => true,
                _ => false,
            }
        }
        // A value of another type than the column has, text that is none, a row that is missing.
        _ => true,
    }
}

/// Copies the error for the next one who waited for the same transaction.
pub(super) fn again(error: &StoreError) -> StoreError {
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
        StoreError::Failed(why) => StoreError::Failed(why.clone()),
    }
}
