//! Messages between [`RemoteStore`](https://docs.rs/zk-harness-stores) and `zk serve-sessions`.
//!
//! Each operation is a `POST` to `/v1/NAME` with JSON, the token as `Authorization: Bearer TOKEN`, and the
//! version of the protocol in a header, both ways. An answer is JSON, or lines of JSON ([`StreamLine`]) where
//! entries are read; a status other than 200 comes with a [`WireError`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zk_core::model::{EntryId, SessionId};
use zk_core::service::{Entry, EntryKind, SessionInfo, StoreError};

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;

/// Header with the version of the protocol.
pub const VERSION_HEADER: &str = "zk-sessions-version";

/// Maximum size in bytes of a request, and of an answer that is no stream.
pub const MAX_MESSAGE_BYTES: usize = 128 << 20;

/// Names of the operations, as they stand behind `/v1/`.
pub mod operation {
    /// [`CreateRequest`](super::CreateRequest) to [`OpenReply`](super::OpenReply).
    pub const CREATE: &str = "create";
    /// [`OpenRequest`](super::OpenRequest) to [`OpenReply`](super::OpenReply).
    pub const OPEN: &str = "open";
    /// [`HandleRequest`](super::HandleRequest) to [`Done`](super::Done): extends a lease.
    pub const RENEW: &str = "renew";
    /// [`AppendRequest`](super::AppendRequest) to [`AppendReply`](super::AppendReply).
    pub const APPEND: &str = "append";
    /// [`HandleRequest`](super::HandleRequest) to a stream: entries of an open session.
    pub const ENTRIES: &str = "entries";
    /// [`HandleRequest`](super::HandleRequest) to a stream: entries of all branches of an open session.
    pub const TREE: &str = "tree";
    /// [`HandleRequest`](super::HandleRequest) to a stream: live entries of an open session.
    pub const LIVE: &str = "live";
    /// [`HandleRequest`](super::HandleRequest) to [`Done`](super::Done).
    pub const CLOSE: &str = "close";
    /// [`ReadRequest`](super::ReadRequest) to a stream: entries of a session that may be open.
    pub const SCAN: &str = "scan";
    /// [`ReadRequest`](super::ReadRequest) to a stream: entries of all branches of a session that may be open.
    pub const SCAN_TREE: &str = "scan-tree";
    /// [`ReadRequest`](super::ReadRequest) to a stream: live entries of a session that may be open.
    pub const READ_LIVE: &str = "read-live";
    /// [`ReadRequest`](super::ReadRequest) to a stream: the newest entries.
    pub const LAST_ENTRIES: &str = "last";
    /// [`ListRequest`](super::ListRequest) to [`ListReply`](super::ListReply).
    pub const LIST: &str = "list";
    /// [`ReadRequest`](super::ReadRequest) to [`Done`](super::Done).
    pub const DELETE: &str = "delete";
    /// [`RenameRequest`](super::RenameRequest) to [`Done`](super::Done).
    pub const RENAME: &str = "rename";
}

/// Request for a new session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateRequest {
    /// Id of the session; `None` for a fresh id.
    pub id: Option<SessionId>,
    /// Working directory of the session.
    pub cwd: PathBuf,
    /// Parent session.
    pub parent: Option<SessionId>,
    /// Process id of the client, which errors for other clients name.
    pub pid: u32,
}

/// Request to open a session for writing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Id of the session.
    pub id: SessionId,
    /// Process id of the client, which errors for other clients name.
    pub pid: u32,
}

/// Session that the client may write until its lease ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenReply {
    /// Secret name of the lease, known to this client only.
    pub handle: String,
    /// Id of the session.
    pub id: SessionId,
    /// Working directory of the session.
    pub cwd: Option<PathBuf>,
    /// Messages for the person.
    pub notices: Vec<String>,
    /// Id of the last entry; `None` for a session without entries.
    pub leaf: Option<EntryId>,
    /// Milliseconds after which the lease ends, unless it is renewed or used.
    pub lease_ms: u64,
}

/// Request about a session that this client has open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HandleRequest {
    /// Name of the lease.
    pub handle: String,
}

/// Request to append entries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AppendRequest {
    /// Name of the lease.
    pub handle: String,
    /// Id of this append, equal when it is sent again, so that it is stored once.
    pub append: String,
    /// Branch of version control, if it changed.
    pub branch: Option<String>,
    /// Whether the entries have to survive a power failure.
    pub disk: bool,
    /// Content of the entries.
    pub kinds: Vec<EntryKind>,
}

/// Answer to [`AppendRequest`]: the stored entries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AppendReply {
    /// Ids of the stored entries, in order.
    pub ids: Vec<EntryId>,
    /// Messages for the person, all since the session was opened.
    pub notices: Vec<String>,
}

/// Request about a stored session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadRequest {
    /// Id of the session.
    pub id: SessionId,
    /// Maximum number of entries, for the operation that reads only the newest ones.
    #[serde(default)]
    pub most: usize,
}

/// Request for a list of sessions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListRequest {
    /// Working directory of the sessions; `None` for all.
    pub cwd: Option<PathBuf>,
    /// Maximum number of sessions; `None` for all.
    pub limit: Option<usize>,
    /// Whether sessions without an answer are listed too.
    pub unanswered: bool,
}

/// List of sessions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListReply {
    /// Sessions, the newest first.
    pub sessions: Vec<SessionInfo>,
}

/// Request to rename a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RenameRequest {
    /// Id of the session.
    pub id: SessionId,
    /// New title; an empty one restores the beginning of the first prompt.
    pub title: String,
}

/// Answer without content.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Done {}

/// Line of a stream of entries. A stream without an end was cut off.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamLine {
    /// An entry.
    Entry(Box<Entry>),
    /// The end of the stream.
    End(Box<StreamEnd>),
    /// The reason for which the stream ends early.
    Error(WireError),
}

/// End of a stream of entries.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StreamEnd {
    /// Summary of the session, where one was asked for.
    pub info: Option<SessionInfo>,
    /// Messages about entries that cannot be read.
    pub notices: Vec<String>,
    /// Index of the complete tail of live entries.
    pub tail: usize,
    /// Number of messages before the tail.
    pub earlier: u64,
}

/// Error of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum WireError {
    /// The token is missing or wrong.
    #[error("the token is missing or wrong")]
    Unauthorised,
    /// The versions of the protocol differ.
    #[error("the server speaks version {server} of the protocol")]
    Version {
        /// Version of the server.
        server: u32,
    },
    /// The request is invalid.
    #[error("the request is not valid: {why}")]
    Invalid {
        /// Reason for which the request is invalid.
        why: String,
    },
    /// The lease of the request has ended.
    #[error("the lease has ended")]
    NoHandle,
    /// See [`StoreError::NotFound`].
    #[error("unknown session `{id}`{hint}")]
    NotFound {
        /// Id of the requested session.
        id: String,
        /// Similar id, or empty.
        hint: String,
    },
    /// See [`StoreError::InUse`].
    #[error("session `{id}` is in use by process {pid}")]
    InUse {
        /// Id of the session.
        id: SessionId,
        /// Id of the process that has the session open.
        pid: u32,
    },
    /// See [`StoreError::Fenced`].
    #[error("session `{id}` was taken over")]
    Fenced {
        /// Id of the session.
        id: SessionId,
    },
    /// See [`StoreError::Damaged`].
    #[error("session `{id}` is damaged ({why})")]
    Damaged {
        /// Id of the session.
        id: SessionId,
        /// Description of the damage.
        why: String,
        /// Path of the damaged data on the server.
        kept: PathBuf,
    },
    /// See [`StoreError::TooNew`].
    #[error("session `{id}` has format {found}")]
    TooNew {
        /// Id of the session.
        id: SessionId,
        /// Format version of the session.
        found: u32,
        /// Newest format version that the server knows.
        known: u32,
    },
    /// See [`StoreError::NoEntry`].
    #[error("session `{session}` has no entry `{entry}`")]
    NoEntry {
        /// Id of the session.
        session: SessionId,
        /// Id of the requested entry.
        entry: EntryId,
    },
    /// Another failure of the store.
    #[error("{why}")]
    Failed {
        /// Description of the failure.
        why: String,
    },
}

impl From<StoreError> for WireError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { id, hint } => Self::NotFound { id, hint },
            StoreError::InUse { id, pid } => Self::InUse { id, pid },
            StoreError::Fenced { id } => Self::Fenced { id },
            StoreError::NoEntry { session, entry } => Self::NoEntry { session, entry },
            StoreError::Damaged { id, why, kept } => Self::Damaged { id, why, kept },
            StoreError::TooNew { id, found, known } => Self::TooNew { id, found, known },
            error @ (StoreError::Io { .. } | StoreError::PostedBefore { .. }) => {
                Self::Failed { why: error.to_string() }
            }
            StoreError::Refused(why) | StoreError::Failed(why) => Self::Failed { why },
        }
    }
}

impl From<WireError> for StoreError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::NotFound { id, hint } => Self::NotFound { id, hint },
            WireError::InUse { id, pid } => Self::InUse { id, pid },
            WireError::Fenced { id } => Self::Fenced { id },
            WireError::NoEntry { session, entry } => Self::NoEntry { session, entry },
            WireError::Damaged { id, why, kept } => Self::Damaged { id, why, kept },
            WireError::TooNew { id, found, known } => Self::TooNew { id, found, known },
            WireError::Failed { why } => Self::Failed(why),
            WireError::Unauthorised
            | WireError::Version { .. }
            | WireError::Invalid { .. }
            | WireError::NoHandle => Self::Failed(error.to_string()),
        }
    }
}
