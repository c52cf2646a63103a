use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Audience, CustomEntry, EntryVisitor, LiveEntries, SessionScan, SessionSnapshot};
use crate::model::{
    CallId, Display, EntryId, Message, ModelRef, RunId, SessionId, ThinkingLevel, ToolResult, TurnId,
    TurnUsage,
};

/// Store of sessions. A service.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Begins a session. Nothing needs to be on disk before its first entries are.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be used at all.
    async fn create(&self, new: NewSession) -> Result<Arc<dyn OpenSession>, StoreError>;

    /// Opens a session for writing; nobody else can until it is dropped.
    ///
    /// # Errors
    /// [`StoreError::InUse`] when somebody has it open, [`StoreError::NotFound`], [`StoreError::Damaged`].
    async fn open(&self, id: &SessionId) -> Result<Arc<dyn OpenSession>, StoreError>;

    /// Reads a session without opening it: also while somebody writes it, and without changing anything.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Damaged`] when nothing of it can be read.
    async fn read(&self, id: &SessionId) -> Result<SessionSnapshot, StoreError>;

    /// Reads a session as [`SessionStore::read`] does, and hands each entry to `visit`, oldest first, with the bytes that its kind
    /// takes as JSON, until that breaks off. A store that can holds one entry in memory at a time.
    ///
    /// # Errors
    /// As [`SessionStore::read`]. Entries may have been visited before it.
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

    /// Reads as [`SessionStore::read`] does, but only what a conversation would go on from
    /// ([`OpenSession::live`]).
    ///
    /// # Errors
    /// As [`SessionStore::read`].
    async fn read_live(&self, id: &SessionId) -> Result<LiveEntries, StoreError> {
        Ok(LiveEntries::whole(self.read(id).await?.entries))
    }

    /// The newest entries of a session, at most `most`, oldest first: its end, for who shows that before all of it is read.
    /// As [`SessionStore::read`], nothing is locked or changed; fewer come where some cannot be read.
    ///
    /// # Errors
    /// As [`SessionStore::read`].
    async fn last_entries(&self, id: &SessionId, most: usize) -> Result<Vec<Entry>, StoreError> {
        let mut entries = self.read(id).await?.entries;
        Ok(entries.split_off(entries.len().saturating_sub(most)))
    }

    /// The sessions that match, newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read. A session that cannot be read is listed with its reason.
    async fn list(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError>;

    /// Removes a session.
    ///
    /// # Errors
    /// [`StoreError`], also when somebody has it open.
    async fn delete(&self, id: &SessionId) -> Result<(), StoreError>;
}

/// A session open for writing.
#[async_trait]
pub trait OpenSession: Send + Sync {
    /// Returns the session's id.
    fn id(&self) -> &SessionId;

    /// The directory it works in, if the store knows.
    fn cwd(&self) -> Option<PathBuf> {
        None
    }

    /// Messages for the person, oldest first: what could not be read when it was opened, and what happened to
    /// its files since. Empty when all is well.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// Says that the first entries come soon: a store may make ready for them now, while nobody waits. What it made is
    /// gone again if none come. Does nothing unless the store can.
    fn prepare(&self) {}

    /// Adds entries after the current leaf, all or none of them. When this returns, they and everything
    /// appended before them survive what `durability` names. No entries and [`Durability::Disk`] put on disk
    /// what was appended before.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was added then.
    async fn append(
        &self,
        entries: Vec<EntryKind>,
        durability: Durability,
    ) -> Result<Vec<EntryId>, StoreError>;

    /// The entries from the first to the leaf.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn entries(&self) -> Result<Vec<Entry>, StoreError>;

    /// The entries that a conversation goes on from: all of them, or those since what its last compaction left out.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn live(&self) -> Result<LiveEntries, StoreError> {
        Ok(LiveEntries::whole(self.entries().await?))
    }

    /// Visits what [`OpenSession::entries`] gives, as [`SessionStore::scan`] does, and returns what that says in notices.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn scan(&self, mut visit: EntryVisitor) -> Result<Vec<String>, StoreError> {
        // The bytes are for who weighs entries of a store.
        let _ = self.entries().await?.into_iter().try_for_each(|entry| visit(entry, 0));
        Ok(Vec::new())
    }

    /// Lets go of the session after everything is written.
    ///
    /// # Errors
    /// [`StoreError`] when something could not be written.
    async fn close(&self) -> Result<(), StoreError>;
}

/// Event that an append survives once it has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The death of the process at any moment. Costs no sync.
    #[default]
    Process,
    /// A power cut as well: the entries are synced to the disk. For what must be known before a side effect,
    /// and before its result is acknowledged.
    Disk,
}

/// Description of a new session.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Id of the session; a fresh one if nothing.
    pub id: Option<SessionId>,
    /// The directory it works in.
    pub cwd: PathBuf,
    /// The session it continues or belongs to.
    pub parent: Option<SessionId>,
}

/// The version of the entries' shape: the second part grows with what is added, the first with what a reader of the old
/// shape would miss.
pub const ENTRY_VERSION: &str = "1.2";

/// One record of a session's log: append-only, a tree by `parent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Entry {
    /// Id of the entry.
    pub id: EntryId,
    /// The entry it follows.
    pub parent: Option<EntryId>,
    /// Time of writing, in milliseconds since 1970.
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
        /// The message.
        message: Arc<Message>,
        /// The usage of the turn, with an assistant message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Box<TurnUsage>>,
    },
    /// Another model from here on.
    Model {
        /// The model.
        model: ModelRef,
    },
    /// Another thinking level from here on.
    Thinking {
        /// The level.
        level: ThinkingLevel,
    },
    /// A run began.
    RunStart {
        /// The run.
        run_id: RunId,
    },
    /// A run ended.
    RunEnd {
        /// The run.
        run_id: RunId,
        /// Outcome of the run: `completed`, `aborted` or `error`.
        status: RunStatus,
    },
    /// An answer with calls, stored before any of them runs. Provisional: the assistant message and its
    /// results follow as a pair once all calls have ended.
    OpenTurn {
        /// The turn.
        turn_id: TurnId,
        /// The assistant message with the calls.
        message: Arc<Message>,
        /// The usage of the turn.
        usage: Box<TurnUsage>,
    },
    /// A call that is not read-only, stored before it runs.
    CallBegin {
        /// The turn.
        turn_id: TurnId,
        /// The call.
        call_id: CallId,
        /// The tool's canonical name.
        name: String,
        /// The arguments it runs with.
        args: Value,
        /// Summary of what the call will do, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
    /// The end of a call that is not read-only, stored before its result is acknowledged.
    CallEnd {
        /// The turn.
        turn_id: TurnId,
        /// The call.
        call_id: CallId,
        /// Summary of what the call did, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// The result for the model.
        result: Box<ToolResult>,
        /// Display for the person instead of the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<Box<Display>>,
        /// The tool's own data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// Time that the call ran, in milliseconds.
        elapsed_ms: u64,
    },
    /// Data that a read-only call left beside its result, stored with the pair of its turn.
    CallData {
        /// The turn.
        turn_id: TurnId,
        /// The call.
        call_id: CallId,
        /// Summary of what the call did, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Display for the person instead of the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<Box<Display>>,
        /// The tool's own data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        /// Time that the call ran, in milliseconds.
        elapsed_ms: u64,
    },
    /// Usage of a turn that left no message because its answer broke off before any text, or of a side call.
    Usage {
        /// The usage of the turn, or of the side call.
        usage: Box<TurnUsage>,
        /// Plugin and purpose of the side call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side_call: Option<SideCallOf>,
    },
    /// An entry that a plugin appended.
    Custom(CustomEntry),
}

impl EntryKind {
    /// Reads an entry as serde writes it. Takes less time than serde does where the kind stands first, and the data of a
    /// plugin's entry is not looked into.
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
    /// When the text is no entry that is known.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        // An enum whose tag may stand anywhere is taken into memory whole before serde looks at it.
        if text.starts_with(r#"{"entry":"message","#) {
            let WrittenMessage { mut message, usage } = serde_json::from_str(text)?;
            // Most have one block, and serde makes room for four.
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

/// The fields of [`EntryKind::Message`].
#[derive(Deserialize)]
struct WrittenMessage {
    message: Message,
    #[serde(default)]
    usage: Option<Box<TurnUsage>>,
}

/// The fields of [`CustomEntry`], with the data as it is written.
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

/// Plugin and purpose of a call to a model beside the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SideCallOf {
    /// The plugin.
    pub source: String,
    /// Purpose of the call.
    pub purpose: String,
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run did what it was asked.
    Completed,
    /// The run was stopped.
    Aborted,
    /// The run failed.
    Error,
}

/// Filter for a list of sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Directory that the sessions have to be of.
    pub cwd: Option<PathBuf>,
    /// Largest number of sessions.
    pub limit: Option<usize>,
    /// Whether sessions without an answer of a model are listed too.
    pub unanswered: bool,
}

/// One line about a session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionInfo {
    /// Id of the session.
    pub id: SessionId,
    /// Parent session, such as the one that this is a copy of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// The directory it works in.
    pub cwd: PathBuf,
    /// Time at which the session began.
    pub created: SystemTime,
    /// Time at which the session was last written.
    pub updated: SystemTime,
    /// Number of messages in the session.
    pub messages: u64,
    /// The beginning of its first prompt.
    pub title: String,
    /// Whether a model has answered in it.
    pub answered: bool,
    /// Whether its last run was cut off: it has no end, and nobody has the session open.
    pub interrupted: bool,
    /// Whether somebody has it open, and who.
    pub lock: Option<Lock>,
    /// Reason for which it cannot be read as it is, if there is one.
    pub unreadable: Option<Unreadable>,
}

/// Reason for which a listed session cannot be read as it is. Shown, it completes "it is …".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Unreadable {
    /// Bytes of it are wrong or missing. Opening it saves what can be read.
    #[error("damaged ({0})")]
    Damaged(String),
    /// A newer zk wrote it.
    #[error("of a newer zk (it has format {found}, this zk reads up to {known})")]
    TooNew {
        /// Format of the session.
        found: u32,
        /// The newest format this program knows.
        known: u32,
    },
    /// The system does not let this process read it. Nothing is known to be wrong with it.
    #[error("out of reach ({0})")]
    OutOfReach(String),
}

/// Process that has a session open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lock {
    /// The process.
    pub pid: u32,
}

/// Reason for which the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such session.
    #[error("unknown session `{id}`{hint}")]
    NotFound {
        /// The id.
        id: String,
        /// A near match, or empty.
        hint: String,
    },
    /// Another process has it open.
    #[error("session `{id}` is in use by process {pid}; end that one first, or start a new session")]
    InUse {
        /// Session that the other process has open.
        id: SessionId,
        /// The process.
        pid: u32,
    },
    /// The session cannot be read. What is left of it was put aside and not changed.
    #[error("session `{id}` is damaged ({why}); it was kept as {kept}")]
    Damaged {
        /// Session that cannot be read.
        id: SessionId,
        /// Fault that was found, in words.
        why: String,
        /// Path at which it is kept now.
        kept: PathBuf,
    },
    /// The session was written by a newer zk.
    #[error("session `{id}` has format {found}, this zk reads up to {known}; use a newer zk")]
    TooNew {
        /// Session of the newer program.
        id: SessionId,
        /// Format of the session.
        found: u32,
        /// The newest format this program knows.
        known: u32,
    },
    /// The disk said no.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// Act that failed, as a verb.
        doing: &'static str,
        /// Path that it failed on.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The store itself failed.
    #[error("session store: {0}")]
    Failed(String),
}
