use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_core::service::StateFileError;

/// Reason for which a journal cannot keep, show or bring back files.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The file system reported an error.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// Action that failed, as a verb.
        doing: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// A file of the journal cannot be written or locked.
    #[error("the undo journal cannot be used: {0}")]
    Journal(#[from] StateFileError),
    /// A file of the journal does not hold what was written.
    #[error("the undo journal is damaged: {}: {why}; the files of the workspace were not changed", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Reason why the file cannot be used.
        why: String,
    },
    /// Record of the journal from a newer zk.
    #[error(
        "{} of the undo journal was written by a newer zk: update zk, and undo then; the files of the workspace were not changed",
        path.display()
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
    },
    /// A call of the session is running, maybe in another process.
    #[error("a call of this session is running; undo when it has ended")]
    Running,
    /// Keeping the workspace took longer than allowed.
    #[error("{} could not be looked through within {} s", root.display(), limit.as_secs())]
    TooSlow {
        /// Root of the workspace.
        root: PathBuf,
        /// Time that was allowed.
        limit: Duration,
    },
    /// The call began to run before its files were kept.
    #[error("the call was no longer waiting to be covered")]
    Late,
    /// The workspace is not the one whose files were kept.
    #[error(
        "{} is not the directory that it was in that turn ({why}), so nothing was changed; its kept files stay in the journal",
        root.display()
    )]
    OtherWorkspace {
        /// Root of the workspace.
        root: PathBuf,
        /// Difference that was found.
        why: &'static str,
    },
    /// An undo changed no file, because a content could not be written or a directory cannot be changed.
    #[error("{0}; no file was changed")]
    Unchanged(#[source] Box<UndoError>),
    /// Files are back, and the journal could not record it.
    #[error(
        "the files are back, but that could not be recorded: {0}; the next undo or start completes the record"
    )]
    Unrecorded(#[source] Box<UndoError>),
    /// No turn with that number changed files.
    #[error(
        "turn {0} is not in the journal of this session; `/undo list` names the turns that changed files"
    )]
    NoTurn(u64),
    /// No turn changed files.
    #[error("no turn of this session changed files")]
    NoTurns,
    /// There is nothing to undo.
    #[error("nothing to undo: no turn of this session changed files that are not back already")]
    NothingToUndo,
    /// There is nothing to redo.
    #[error("nothing to redo: no undo of this session is left to take back")]
    NothingToRedo,
}

impl UndoError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), why: why.into() }
    }
}
