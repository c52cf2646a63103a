use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CompactionTrigger, notify};
use crate::kernel::{Absorb, BoxError, Event, Fold, LastOrStop, OnError, Source, Stops, WireReply};
use crate::model::{EntryId, Message, RunId, SessionId, TurnId, TurnUsage};
use crate::service::{CustomEntry, Entry, NewEntry, RunStatus};

/// A run begins in a session. Whoever stores sessions notes it here.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionStart {
    /// The session, if there is one.
    pub session_id: Option<SessionId>,
    /// The run.
    pub run_id: RunId,
    /// Number of messages that the run continues from.
    pub messages: usize,
}
notify!(SessionStart, "session:start", ON_ERROR = OnError::Throw);

/// Messages joined the conversation, other than an assistant message with its tool results, which are stored
/// as a pair at `tool-results:after`. A handler that fails stops the run: nothing goes on unstored.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionMessages {
    /// The run.
    pub run_id: RunId,
    /// The messages, in order; none when an answer broke off that had no text, and only its usage is to be stored.
    pub messages: Vec<Arc<Message>>,
    /// Usage of the turn, when the messages are a model's answer.
    pub usage: Option<TurnUsage>,
    /// Cause that brought the messages.
    pub cause: MessagesCause,
}
notify!(SessionMessages, "session:messages", ON_ERROR = OnError::Throw, CANCELLABLE = false);

/// Cause that brought messages into a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessagesCause {
    /// The prompt of the run.
    Prompt,
    /// An answer without tool calls, whole or broken off.
    Answer,
    /// A steering message.
    Steer,
    /// A follow-up.
    FollowUp,
    /// A budget or another part of the harness.
    Harness,
}

/// A model answered with tool calls, none of which has run yet. Whoever stores sessions keeps the answer
/// provisionally: it becomes part of the conversation with its results, at `tool-results:after`. A handler that
/// fails stops the run before any of the calls.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionOpenTurn {
    /// The run.
    pub run_id: RunId,
    /// The turn.
    pub turn_id: TurnId,
    /// The answer with the calls.
    pub message: Arc<Message>,
    /// Usage of the turn.
    pub usage: TurnUsage,
}
notify!(SessionOpenTurn, "session:open-turn", ON_ERROR = OnError::Throw, CANCELLABLE = false);

/// A conversation begins in the place of another, or a stored one goes on: plugins drop what they kept of the one
/// before, and find here what they had appended to this one. Announced before anything else of its first run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionLoaded {
    /// The session, if there is one.
    pub session_id: Option<SessionId>,
    /// The entries of the branch that was loaded, to the leaf: of a large beginning that a compaction left out, those that are
    /// looked up later. None of a new conversation.
    pub entries: Arc<[Entry]>,
}
notify!(SessionLoaded, "session:loaded");

/// Switch of the conversation to another session, or to none: announced once what belongs to it is installed, and
/// before its first run. Front-ends begin their view anew.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionSwitch {
    /// The session that was left, if there was one.
    pub from: Option<SessionId>,
    /// The session now, if there is one.
    pub to: Option<SessionId>,
    /// The entries of its branch, as in `session:loaded`; none of a new conversation.
    pub entries: Arc<[Entry]>,
}
impl SessionSwitch {
    /// Whether the session stays, and was only read again.
    #[must_use]
    pub fn is_same_session(&self) -> bool {
        self.to.is_some() && self.from == self.to
    }
}

notify!(SessionSwitch, "session:switch", CANCELLABLE = false);

/// A plugin appended an entry to the session: it is stored. Entries of `session:before-end` are in `session:end`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionEntry {
    /// The entry.
    pub entry: CustomEntry,
}
notify!(SessionEntry, "session:entry", CANCELLABLE = false);

/// A run is about to end: plugins may append entries of their own, which are stored before its end is.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionBeforeEnd {
    /// The session, if there is one.
    pub session_id: Option<SessionId>,
    /// The run.
    pub run_id: RunId,
    /// Outcome of the run.
    pub status: RunStatus,
    /// Entries to append, as collected so far.
    pub entries: Vec<CustomEntry>,
}

impl Event for SessionBeforeEnd {
    const NAME: &'static str = "session:before-end";
    const CANCELLABLE: bool = false;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
    type Reply = NewEntry;
    type Mode = Fold;
}

impl Absorb for SessionBeforeEnd {
    fn absorb(&mut self, reply: NewEntry, from: &Source) -> ControlFlow<()> {
        self.entries.push(reply.by(from));
        ControlFlow::Continue(())
    }
}

/// A run ended in a session, however it ended.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionEnd {
    /// The session, if there is one.
    pub session_id: Option<SessionId>,
    /// The run.
    pub run_id: RunId,
    /// Outcome of the run.
    pub status: RunStatus,
    /// The run's messages in the history: from this one …
    pub from: usize,
    /// … up to, not including, this one.
    pub to: usize,
    /// Entries that plugins appended at `session:before-end`, and data that the next process compares its
    /// first request with: to be stored before the end is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<CustomEntry>,
}
notify!(SessionEnd, "session:end", ON_ERROR = OnError::Throw, CANCELLABLE = false);

/// An answer to a `session:before-*` event.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionBeforeReply {
    /// Do not do it; this answer wins at once.
    pub cancel: bool,
    /// Reason for the cancellation.
    pub reason: Option<String>,
    /// Data that the handler supplies instead of the default, such as a summary.
    pub data: Option<Value>,
}

impl SessionBeforeReply {
    /// The summary that a handler of `session:before-compact` supplies: `data` is its text, or an object with it as
    /// `summary`.
    ///
    /// # Errors
    /// [`NotASummary`] when `data` is something else, or blank.
    pub fn summary(&self) -> Result<Option<&str>, NotASummary> {
        let Some(data) = &self.data else { return Ok(None) };
        let text = data.as_str().or_else(|| data.get("summary")?.as_str());
        text.filter(|text| !text.trim().is_empty()).map(Some).ok_or(NotASummary)
    }
}

/// A plugin supplied something that cannot stand for a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the summary that a plugin supplied is no text: `data` is a text, or an object with the text as `summary`"
)]
pub struct NotASummary;

impl WireReply for SessionBeforeReply {
    fn from_json(value: Value) -> Result<Self, BoxError> {
        Ok(serde_json::from_value(value)?)
    }
}

impl Stops for SessionBeforeReply {
    fn stops(&self) -> bool {
        self.cancel
    }
}

/// Another session is about to be opened. The last answer wins unless one cancels.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionBeforeSwitch {
    /// The session now.
    pub from: Option<SessionId>,
    /// The session to be opened; a new one if nothing.
    pub to: Option<SessionId>,
}

impl Event for SessionBeforeSwitch {
    const NAME: &'static str = "session:before-switch";
    type Reply = SessionBeforeReply;
    type Mode = LastOrStop;
}

/// A session is about to be copied from an entry on. The last answer wins unless one cancels.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionBeforeFork {
    /// Session to be copied.
    pub session_id: SessionId,
    /// Last entry of the copy.
    pub entry: EntryId,
}

impl Event for SessionBeforeFork {
    const NAME: &'static str = "session:before-fork";
    type Reply = SessionBeforeReply;
    type Mode = LastOrStop;
}

/// The leaf of a session is about to move. The last answer wins unless one cancels.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionBeforeTree {
    /// Session with the leaf.
    pub session_id: SessionId,
    /// The leaf now.
    pub from: Option<EntryId>,
    /// The leaf to be.
    pub to: EntryId,
}

impl Event for SessionBeforeTree {
    const NAME: &'static str = "session:before-tree";
    type Reply = SessionBeforeReply;
    type Mode = LastOrStop;
}

/// The context is about to be compacted: somebody asked for it, or a request exceeds the upper threshold or did not
/// fit. The last answer wins unless one cancels; `data` may be the whole summary, and no strategy is asked for one
/// then. What came of it is a [`ContextCompaction`](super::ContextCompaction).
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionBeforeCompact {
    /// The session, if there is one.
    pub session_id: Option<SessionId>,
    /// Tokens in the context now, as far as known.
    pub tokens: u64,
    /// Instructions of the person for the summary.
    pub instructions: Option<String>,
    /// Cause of the compaction.
    pub trigger: CompactionTrigger,
}

impl Event for SessionBeforeCompact {
    const NAME: &'static str = "session:before-compact";
    type Reply = SessionBeforeReply;
    type Mode = LastOrStop;
}
