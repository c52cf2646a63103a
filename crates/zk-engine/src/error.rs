use std::path::Path;

use rusqlite::ErrorCode;
use zk_core::service::EngineError;

/// Converts an error of SQLite for the engine's file.
pub(crate) fn engine_error(doing: &'static str, path: &Path, error: &rusqlite::Error) -> EngineError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => EngineError::Full { path },
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            EngineError::Damaged { path, why: error.to_string() }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => EngineError::Failed {
            doing,
            why: format!("another process has been writing {} for seconds; try again", path.display()),
        },
        Some(_) => EngineError::Failed { doing, why: format!("{}: {error}", path.display()) },
        // The file has a value that this version did not write.
        None => EngineError::Damaged { path, why: error.to_string() },
    }
}

/// Whether the same operation may succeed later, without action by a person.
pub(crate) fn is_transient(error: &EngineError) -> bool {
    match error {
        EngineError::Full { .. } | EngineError::Failed { .. } => true,
        EngineError::InvalidName { .. }
        | EngineError::UnknownRun(_)
        | EngineError::OtherJob(_)
        | EngineError::Finished { .. }
        | EngineError::NameTaken(_)
        | EngineError::SessionTaken { .. }
        | EngineError::TooNew { .. }
        | EngineError::Lost { .. }
        | EngineError::Damaged { .. } => false,
    }
}

/// Whether an engine says that it did not take a run or schedule, and never will. After other errors it may have taken it: the
/// answer of a server can be lost behind the change.
pub(crate) fn is_refusal(error: &EngineError) -> bool {
    match error {
        EngineError::InvalidName { .. } | EngineError::OtherJob(_) | EngineError::SessionTaken { .. } => true,
        EngineError::Full { .. }
        | EngineError::Failed { .. }
        | EngineError::UnknownRun(_)
        | EngineError::Finished { .. }
        | EngineError::NameTaken(_)
        | EngineError::TooNew { .. }
        | EngineError::Lost { .. }
        | EngineError::Damaged { .. } => false,
    }
}
