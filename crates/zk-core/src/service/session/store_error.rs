use std::path::PathBuf;

use crate::model::{EntryId, MailId, SessionId};

/// Error of a session store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such session.
    #[error("unknown session `{id}`{hint}")]
    NotFound {
        /// Id of the requested session.
        id: String,
        /// Similar id, or empty.
        hint: String,
    },
    /// Another process has the session open.
    #[error("session `{id}` is in use by process {pid}; end that one first, or start a new session")]
    InUse {
        /// Id of the session.
        id: SessionId,
        /// Id of the other process.
        pid: u32,
    },
    /// Another writer took the session over, since the lease of this one had ended.
    #[error(
        "session `{id}` was taken over by another writer, so nothing was written; open it again to go on"
    )]
    Fenced {
        /// Id of the session.
        id: SessionId,
    },
    /// Mail with this id was posted before.
    #[error("mail `{mail}` to session `{id}` was posted before; a question is answered once")]
    PostedBefore {
        /// Id of the session.
        id: SessionId,
        /// Id of the mail.
        mail: MailId,
    },
    /// The session has no such entry.
    #[error("session `{session}` has no entry `{entry}`")]
    NoEntry {
        /// Id of the session.
        session: SessionId,
        /// Id of the requested entry.
        entry: EntryId,
    },
    /// The session cannot be read. Its files were moved aside unchanged.
    #[error("session `{id}` is damaged ({why}); it was kept as {kept}")]
    Damaged {
        /// Id of the session.
        id: SessionId,
        /// Description of the damage.
        why: String,
        /// Path that the files were moved to.
        kept: PathBuf,
    },
    /// A newer version of zk wrote the session.
    #[error("session `{id}` has format {found}, this zk reads up to {known}; use a newer zk")]
    TooNew {
        /// Id of the session.
        id: SessionId,
        /// Format version of the session.
        found: u32,
        /// Newest format version that this program knows.
        known: u32,
    },
    /// The file system reported an error.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// Action that failed, as a verb.
        doing: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The store does not do what was asked for, as the text says.
    #[error("{0}")]
    Refused(String),
    /// The store itself failed.
    #[error("session store: {0}")]
    Failed(String),
}

impl StoreError {
    /// Whether the same operation may succeed later, without action by a person on the session: the store was out of reach, or
    /// its file system failed.
    ///
    /// ```
    /// use zk_core::service::StoreError;
    ///
    /// assert!(StoreError::Failed("the connection was closed".into()).is_temporary());
    /// assert!(!StoreError::Fenced { id: "s_1".into() }.is_temporary());
    /// ```
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Failed(_) => true,
            Self::NotFound { .. }
            | Self::InUse { .. }
            | Self::Fenced { .. }
            | Self::PostedBefore { .. }
            | Self::NoEntry { .. }
            | Self::Damaged { .. }
            | Self::TooNew { .. }
            | Self::Refused(_) => false,
        }
    }
}
