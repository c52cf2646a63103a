use std::path::PathBuf;

use zk_core::model::SessionId;
use zk_core::service::StoreError;

use crate::TranscriptFormat;

/// Error of writing a document.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file of this name exists.
    #[error("{} is there already, and stays as it is: take another name", .0.display())]
    Exists(PathBuf),
    /// The file cannot be created or written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The output cannot be written.
    #[error("cannot write the document: {0}")]
    Write(#[from] std::io::Error),
    /// An entry cannot be serialised.
    #[error("cannot write entry {entry}: {source}")]
    Entry {
        /// Id of the entry.
        entry: String,
        /// Cause of the failure.
        source: serde_json::Error,
    },
}

/// Error of importing a transcript.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The content is of no known format.
    #[error("{} is no transcript that zk knows (Claude Code, codex, pi, opencode, or JSON lines that zk exported)", .0.display())]
    Unknown(PathBuf),
    /// A directory has no transcripts.
    #[error("there are no transcripts in {}", .0.display())]
    NoneIn(PathBuf),
    /// The file is of a newer version than this program reads.
    #[error("{} is of a newer version ({found}; this zk reads up to {known}); use a newer zk", path.display())]
    TooNew {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        found: String,
        /// Newest version that this program reads.
        known: &'static str,
    },
    /// A line of an export of zk cannot be read.
    #[error("{}, line {line}: {reason}; nothing was imported", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Description of the problem.
        reason: String,
    },
    /// The transcript has no message.
    #[error("{} has no message of the format {format}", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
        /// Format of the transcript.
        format: TranscriptFormat,
    },
    /// The database of opencode cannot be read.
    #[error("cannot read the database {}: {source}", path.display())]
    Database {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        source: rusqlite::Error,
    },
    /// The transcript is in the store already.
    #[error("the transcript was imported before, as {0}; nothing was added")]
    Known(SessionId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
