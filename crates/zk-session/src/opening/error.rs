use std::path::PathBuf;

use zk_core::model::EntryId;
use zk_core::service::StoreError;

/// Error of opening or copying the session of a conversation.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    /// There is no directory for sessions.
    #[error("there is no place for sessions")]
    NoPlace,
    /// The directory has no session to continue.
    #[error("there is no session of {} to continue", cwd.display())]
    NothingToContinue {
        /// Working directory without sessions.
        cwd: PathBuf,
    },
    /// The conversation is not saved.
    #[error("this conversation is not saved, so there is nothing to go back to")]
    NotSaved,
    /// The session has no such entry.
    #[error("this session has no entry {0}")]
    NoEntry(EntryId),
    /// Failure of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}
