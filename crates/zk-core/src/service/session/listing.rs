use std::path::PathBuf;
use std::time::SystemTime;

use serde::Serialize;

use crate::model::SessionId;

/// Filter for listing sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Working directory of the sessions; `None` for all.
    pub cwd: Option<PathBuf>,
    /// Maximum number of sessions to return; `None` for no limit.
    pub limit: Option<usize>,
    /// Whether to list sessions without any answer of a model too.
    pub unanswered: bool,
}

/// Summary of a session in a listing.
#[derive(Clone, Debug, Serialize)]
pub struct SessionInfo {
    /// Id of the session.
    pub id: SessionId,
    /// Parent session, such as the one that this session was copied from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Working directory of the session.
    pub cwd: PathBuf,
    /// Branch of version control that its last run began on, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Time at which the session was created.
    pub created: SystemTime,
    /// Time of the last write.
    pub updated: SystemTime,
    /// Number of messages in the session, of all branches.
    pub messages: u64,
    /// Number of branches; 1 if the leaf was never moved.
    pub branches: u64,
    /// Title that a person gave it, or else the beginning of its first prompt.
    pub title: String,
    /// Whether the session contains an answer of a model.
    pub answered: bool,
    /// Whether the last run was interrupted: its end is not recorded, and the session is not open.
    pub interrupted: bool,
    /// Process that has the session open, if any.
    pub lock: Option<Lock>,
    /// Reason for which the session cannot be read, if any.
    pub unreadable: Option<Unreadable>,
}

/// Reason for which a listed session cannot be read. Its text completes "it is …".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Unreadable {
    /// Bytes are wrong or missing. Opening the session recovers the readable part.
    #[error("damaged ({0})")]
    Damaged(String),
    /// A newer version of zk wrote the session.
    #[error("of a newer zk (it has format {found}, this zk reads up to {known})")]
    TooNew {
        /// Format version of the session.
        found: u32,
        /// Newest format version that this program knows.
        known: u32,
    },
    /// The system denies this process access. The session itself may be intact.
    #[error("out of reach ({0})")]
    OutOfReach(String),
}

/// Process that has a session open for writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lock {
    /// Process id.
    pub pid: u32,
}
