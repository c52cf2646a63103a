use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::restore::restore_by_appending;
use super::{
    Audience, CustomEntry, EntryVisitor, LiveEntries, SessionFilter, SessionInfo, SessionScan,
    SessionSnapshot,
};
use crate::model::{
    CallId, Display, EntryId, Message, ModelRef, RunId, SessionId, ThinkingLevel, ToolResult, TurnId,
    TurnUsage,
};

/// Store of sessions, provided as a service.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Creates a session. The store may wait for the first entries before it writes to disk.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be used at all.
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError>;

    /// Opens a session for writing; exclusive until it is dropped.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when another process or conversation has it open, [`StoreError::NotFound`], [`StoreError::Damaged`].
    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError>;

    /// Reads the present branch of a session without a lock, also while it is being written, and without changing anything.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Damaged`] when no part of the session can be read.
    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError>;

    /// Reads a session like [`SessionStore::read`], and calls `visit` for each entry, oldest first, with the size of its kind
    /// as JSON in bytes, until the callback breaks. A store should hold only one entry in memory at a time.
    ///
    /// # Errors
    /// The errors of [`SessionStore::read`]. Some entries may have been visited before the error.
    async fn scan(&self, id: &SessionId, mut visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        let SessionSnapshot { info, entries, notices } = self.read(id).await?;
        for entry in entries {
            let bytes = serde_json::to_vec(&entry.kind).map_or(0, |json| json.len());
            if visit(entry, bytes).is_break() {
                break;
            }
        }
        Ok(SessionScan { info, notices })
    }

    /// Visits the entries of all branches in the order in which they were written, like [`SessionStore::scan`]. A store that
    /// keeps branches overrides the default, which visits the present branch.
    ///
    /// # Errors
    /// The errors of [`SessionStore::read`]. Some entries may have been visited before the error.
    async fn scan_tree(&self, id: &SessionId, visit: EntryVisitor) -> Result<SessionScan, StoreError> {
        self.scan(id, visit).await
    }

    /// Reads like [`SessionStore::read`], but only the entries that a conversation continues from ([`OpenSession::live`]).
    ///
    /// # Errors
    /// The errors of [`SessionStore::read`].
    async fn read_live(&self, id: &SessionId) -> Result<LiveEntries, StoreError> {
        Ok(LiveEntries::whole(self.read(id).await?.entries))
    }

    /// Reads at most the `most` newest entries of a session, oldest first, for a preview before all of it is
    /// read. Takes no lock, like [`SessionStore::read`]; unreadable entries are skipped.
    ///
    /// # Errors
    /// The errors of [`SessionStore::read`].
    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, StoreError> {
        let mut entries = self.read(id).await?.entries;
        Ok(entries.split_off(entries.len().saturating_sub(most)))
    }

    /// Lists the sessions that match `filter`, newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read. An unreadable session is listed with the reason.
    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError>;

    /// Removes a session.
    ///
    /// # Errors
    /// [`StoreError`], also when the session is open.
    async fn delete(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Creates a session with the entries of another one, all or none: the way back from an export, and of an import. The
    /// session is closed then. A store keeps the ids and times of the entries if it can; the default gives new ones, and
    /// removes what it stored when it fails.
    ///
    /// # Errors
    /// [`StoreError`], also when the session exists.
    async fn restore(&self, new: NewSession, entries: Vec<Entry>) -> Result<SessionId, StoreError> {
        restore_by_appending(self, new, entries).await
    }

    /// Gives a session another title, also an open one; an empty title is the beginning of its first prompt again.
    ///
    /// # Errors
    /// [`StoreError`], also when the store keeps no titles.
    async fn rename(&self, id: &SessionId, _title: &str) -> Result<(), StoreError> {
        Err(StoreError::Failed(format!("the title of {id} cannot be changed")))
    }

    /// Place for sessions that are not complete yet, such as copies in the making, which the store neither lists nor
    /// opens. `None` if it has no such place; a copy is then appended at once, as far as it fits.
    fn drafts(&self) -> Option<Arc<dyn SessionStore>> {
        None
    }

    /// Moves a closed session from the [drafts](Self::drafts) into this store.
    ///
    /// # Errors
    /// [`StoreError`]; the session then stays a draft.
    async fn publish(&self, id: &SessionId) -> Result<(), StoreError> {
        Err(StoreError::Failed(format!("there is no draft of {id}")))
    }
}

/// A session that is open for writing.
#[async_trait]
pub trait OpenSession: Send + Sync {
    /// Returns the session's id.
    fn id(&self) -> &SessionId;

    /// Returns the working directory of the session, if the store knows it.
    fn cwd(&self) -> Option<PathBuf> {
        None
    }

    /// Returns messages for the person, oldest first: parts unreadable on opening, and problems since.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// Hints that entries will follow soon. A store may prepare in the background; it undoes this if none follow.
    fn prepare(&self) {}

    /// Sets the branch of version control, for listings. A store keeps it with the next entries, or ignores it.
    fn note_branch(&self, _branch: String) {}

    /// Appends entries after the current leaf, all or none. On return, they and all earlier entries survive
    /// the failure in `durability`. An empty list with [`Durability::Disk`] syncs earlier entries.
    ///
    /// If the first entry is an [`EntryKind::Leaf`], all of them follow the entry that it names. No other entry may be one.
    ///
    /// # Errors
    /// [`StoreError`], such as [`StoreError::NoEntry`] for an unknown leaf; no entry was added then.
    async fn append(
        &self,
        entries: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError>;

    /// Returns the entries of the present branch, from the root to the leaf.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    async fn entries(&self) -> Result<Vec<Entry>, StoreError>;

    /// Returns the entries that a conversation continues from: all, or without the beginning that its last
    /// compaction left out.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    async fn live(&self) -> Result<LiveEntries, StoreError> {
        Ok(LiveEntries::whole(self.entries().await?))
    }

    /// Visits the entries from the root to the leaf like [`SessionStore::scan`], and returns its notices.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    async fn scan(&self, mut visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        // The size of an entry matters only to callers that measure a store.
        let _ = self.entries().await?.into_iter().try_for_each(|entry| visit(entry, 0));
        Ok(Vec::new())
    }

    /// Visits the entries of all branches like [`SessionStore::scan_tree`], and returns its notices.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    async fn scan_tree(&self, visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        self.scan(visit).await
    }

    /// Closes the session after all entries are written.
    ///
    /// # Errors
    /// [`StoreError`] when something could not be written.
    async fn close(&self) -> Result<(), StoreError>;
}

/// Failure that appended entries survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The death of the process at any moment. Needs no sync.
    #[default]
    Process,
    /// A power failure too: synced to disk, for records that must exist before a side effect or its result.
    Disk,
}

/// Parameters of a new session.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Id of the session; `None` for a fresh id.
    pub id: Option<SessionId>,
    /// Working directory of the session.
    pub cwd: PathBuf,
    /// Session that this one continues or belongs to.
    pub parent: Option<SessionId>,
}

/// Version of the entries' JSON form. The minor part grows with each addition, the major part with each
/// incompatible change.
pub const ENTRY_VERSION: &str = "1.4";

/// One record of a session's append-only log. The records form a tree by `parent`. The record written last is the leaf: the
/// present branch consists of the leaf and its ancestors ([`present_branch`](super::present_branch)).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Entry {
    /// Id of the entry.
    pub id: EntryId,
    /// Id of the entry before this one on its branch.
    pub parent: Option<EntryId>,
    /// Time of writing in milliseconds since 1970.
    pub time_ms: u64,
    /// Content of the entry.
    pub kind: EntryKind,
}

// Large fields are boxed to keep an entry small: a session has thousands of entries.
/// Content of an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum EntryKind {
    /// A message of the conversation.
    Message {
        /// Message with its content blocks.
        message: Arc<Message>,
        /// The usage of the turn, with an assistant message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Box<TurnUsage>>,
    },
    /// The model changed.
    Model {
        /// The new model.
        model: ModelRef,
    },
    /// The thinking level changed.
    Thinking {
        /// The new thinking level.
        level: ThinkingLevel,
    },
    /// A run began.
    RunStart {
        /// Id of the run that began.
        run_id: RunId,
    },
    /// A run ended.
    RunEnd {
        /// Id of the run that ended.
        run_id: RunId,
        /// Outcome of the run: `completed`, `aborted` or `error`.
        status: RunStatus,
    },
    /// An answer with tool calls, stored before any of them runs. Provisional: the assistant message and its
    /// results follow as a pair once all calls have ended.
    OpenTurn {
        /// Id of the turn.
        turn_id: TurnId,
        /// The assistant message with the calls.
        message: Arc<Message>,
        /// The usage of the turn.
        usage: Box<TurnUsage>,
    },
    /// The start of a call that is not read-only, stored before it runs.
    CallBegin {
        /// Turn in which the model made the call.
        turn_id: TurnId,
        /// Id of the call.
        call_id: CallId,
        /// Canonical name of the tool.
        name: String,
        /// Final arguments of the call.
        args: Value,
        /// Summary of what the call will do, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
    /// The end of a call that is not read-only, stored before its result is used.
    CallEnd {
        /// Turn in which the model made the call.
        turn_id: TurnId,
        /// Id of the call.
        call_id: CallId,
        /// Summary of what the call did, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Result for the model.
        result: Box<ToolResult>,
        /// Display form of the result, for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<Box<Display>>,
        /// Structured data of the tool, for plugins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// Duration of the call in milliseconds.
        elapsed_ms: u64,
    },
    /// Data of a read-only call besides its result, stored with the messages of its turn.
    CallData {
        /// Turn in which the model made the call.
        turn_id: TurnId,
        /// Id of the call.
        call_id: CallId,
        /// Summary of what the call did, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Display form of the result, for a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<Box<Display>>,
        /// Structured data of the tool, for plugins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// Duration of the call in milliseconds.
        elapsed_ms: u64,
    },
    /// Usage without a message: of a turn whose answer broke off before any text, or of a side call.
    Usage {
        /// Usage of the turn or side call.
        usage: Box<TurnUsage>,
        /// Plugin and purpose, if this is a side call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side_call: Option<SideCallOf>,
    },
    /// Move of the leaf: the first entry of a branch. Its parent is `to`.
    Leaf {
        /// Entry that the branch continues from; `None` for the time before the first entry.
        to: Option<EntryId>,
        /// Leaf before the move.
        left: Option<EntryId>,
    },
    /// Label of an entry. The last one written counts, whichever branch it is on.
    Label {
        /// Entry with the label.
        target: EntryId,
        /// Text of the label; `None` removes it.
        label: Option<String>,
    },
    /// An entry that a plugin appended.
    Custom(CustomEntry),
}

impl EntryKind {
    /// Parses an entry as serialised by serde. Faster than serde if the kind comes first, because the data of
    /// a plugin's entry is not parsed.
    ///
    /// ```
    /// use zk_core::service::EntryKind;
    ///
    /// let run = EntryKind::from_json(r#"{"entry":"run_start","run_id":"r_1"}"#)?;
    /// assert_eq!(run, EntryKind::RunStart { run_id: "r_1".into() });
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the text is no known entry.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        // For an enum whose tag may come anywhere, serde buffers the whole text first.
        if text.starts_with(r#"{"entry":"message","#) {
            let WrittenMessage { mut message, usage } = serde_json::from_str(text)?;
            // Most messages have one block, and serde reserves room for four.
            message.content.shrink_to_fit();
            return Ok(Self::Message { message: message.shared(), usage });
        }
        if text.starts_with(r#"{"entry":"custom","#) {
            let WrittenCustom { source, kind, version, data, audience } = serde_json::from_str(text)?;
            return Ok(Self::Custom(CustomEntry { source, kind, version, data: data.into(), audience }));
        }
        serde_json::from_str(text)
    }
}

/// Fields of [`EntryKind::Message`].
#[derive(Deserialize)]
struct WrittenMessage {
    message: Message,
    #[serde(default)]
    usage: Option<Box<TurnUsage>>,
}

/// Fields of [`CustomEntry`], with the data as unparsed text.
#[derive(Deserialize)]
struct WrittenCustom {
    source: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    version: u32,
    data: Box<RawValue>,
    #[serde(default)]
    audience: Audience,
}

/// Plugin and purpose of a side call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SideCallOf {
    /// Source of the plugin.
    pub source: String,
    /// Purpose of the call.
    pub purpose: String,
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run finished normally.
    Completed,
    /// The run was stopped.
    Aborted,
    /// The run failed.
    Error,
}

/// Error of a session store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such session.
    #[error("unknown session `{id}`{hint}")]
    NotFound {
        /// Id that was asked for.
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
    /// The session has no such entry.
    #[error("session `{session}` has no entry `{entry}`")]
    NoEntry {
        /// Id of the session.
        session: SessionId,
        /// Entry that was asked for.
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
    /// The store itself failed.
    #[error("session store: {0}")]
    Failed(String),
}
