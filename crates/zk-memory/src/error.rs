use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::FactId;
use crate::fact::MAX_FACT_BYTES;

/// Reason for which a memory cannot be used, or a fact not be kept.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The text is empty.
    #[error("there is nothing to remember: the text is empty")]
    Empty,
    /// The text is too long.
    #[error("a fact has at most {MAX_FACT_BYTES} bytes, this text has {bytes}; keep the point of it")]
    TooLong {
        /// Size of the text in bytes.
        bytes: usize,
    },
    /// The text has control characters.
    #[error("the text has control characters, so it is not kept; write it as plain text")]
    ControlCharacters,
    /// The text has a secret.
    #[error(
        "the text has a key, a password or another secret, so it is not kept; say where the secret is stored instead"
    )]
    Secret,
    /// The memory has as many facts as it may have.
    #[error("the memory is full with {count} facts; forget some first (`zk memory list`)")]
    Full {
        /// Number of facts.
        count: usize,
    },
    /// The memory has as many proposals as it may have.
    #[error(
        "{count} proposals wait for a person already (`zk memory list --proposed`); accept or reject some first"
    )]
    TooManyProposals {
        /// Number of proposals.
        count: usize,
    },
    /// The text is no number of a fact.
    #[error("`{0}` is no number of a fact; `zk memory list` shows them, such as m12")]
    NotAnId(String),
    /// There is no fact of this number.
    #[error("there is no fact {0}; `zk memory list --all` shows all")]
    NoFact(FactId),
    /// The fact is in a file, and stays as long as it is there.
    #[error("{id} comes from {}; change that file instead", path.display())]
    OfFile {
        /// Number of the fact.
        id: FactId,
        /// File that contains the fact.
        path: PathBuf,
    },
    /// Another fact has that text.
    #[error("{0} says that already; forget one of the two instead")]
    Duplicate(FactId),
    /// The fact is no proposal.
    #[error("{0} is no proposal: it is kept already")]
    NotProposed(FactId),
    /// A newer version of zk wrote the memory.
    #[error("a newer zk wrote the memory {} (format {found}, this zk reads {known}); use that zk", path.display())]
    TooNew {
        /// Path of the memory.
        path: PathBuf,
        /// Format version of the memory.
        found: u32,
        /// Format version that this program knows.
        known: u32,
    },
    /// The memory is damaged. The file is kept as it is.
    #[error("the memory {} is damaged ({why}); it is left as it is, and nothing is recalled or kept until it is moved away", path.display())]
    Damaged {
        /// Path of the memory.
        path: PathBuf,
        /// Description of the damage.
        why: String,
    },
    /// The file system or another process prevents the use.
    #[error("cannot {doing} the memory {}: {source}", path.display())]
    Io {
        /// Action that failed, as a verb.
        doing: &'static str,
        /// Path of the memory.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// A thread that used the memory ended early, or took too long.
    #[error("the memory gave no answer: {0}")]
    NoAnswer(String),
}

impl MemoryError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn sqlite(doing: &'static str, path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
            Some(ErrorCode::ReadOnly) => io::ErrorKind::ReadOnlyFilesystem,
            Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => io::ErrorKind::PermissionDenied,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => io::ErrorKind::ResourceBusy,
            Some(ErrorCode::SystemIoFailure) => io::ErrorKind::Other,
            _ => return Self::Damaged { path, why: error.to_string() },
        };
        Self::Io { doing, path, source: io::Error::new(kind, error.to_string()) }
    }

    /// Whether the memory's file is at fault, and not the request.
    #[must_use]
    pub fn is_of_file(&self) -> bool {
        match self {
            Self::TooNew { .. } | Self::Damaged { .. } | Self::Io { .. } | Self::NoAnswer(_) => true,
            Self::Empty
            | Self::TooLong { .. }
            | Self::ControlCharacters
            | Self::Secret
            | Self::Full { .. }
            | Self::TooManyProposals { .. }
            | Self::NotAnId(_)
            | Self::NoFact(_)
            | Self::OfFile { .. }
            | Self::Duplicate(_)
            | Self::NotProposed(_) => false,
        }
    }
}
