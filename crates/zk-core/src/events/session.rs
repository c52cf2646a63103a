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

/// A run begins in a session. A session store records the start here.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionStart {
    /// The session, if there is one.
    pub session_id: Option<SessionId>,
    /// Id of the run that begins.
    pub run_id: RunId,
    /// Number of earlier messages that the run continues from.
    pub messages: usize,
}
notify!(SessionStart, "session:start", ON_ERROR = OnError::Throw);

/// Messages joined the conversation, other than an assistant message with its tool results, which are stored
/// as a pair at `tool-results:after`. A failing handler stops the run, so that no unstored message is built
/// upon.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionMessages {
    /// Run that the messages belong to.
    pub run_id: RunId,
    /// The messages in order. Empty if an answer without text broke off, so that only its usage is stored.
    pub messages: Vec<Arc<Message>>,
    /// Usage of the turn, if the messages are a model's answer.
    pub usage: Option<TurnUsage>,
    /// Cause that brought the messages.
    pub cause: MessagesCause,
}
notify!(SessionMessages, "session:messages", ON_ERROR = OnError::Throw, CANCELLABLE = false);

/// Cause for which messages joined a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MessagesCause {
    /// The prompt of the run.
    Prompt,
    /// An answer without tool calls, complete or cut off.
    Answer,
    /// A steering message, delivered between tool calls or turns.
    Steer,
    /// A follow-up message, delivered when the model was done.
    FollowUp,
    /// A message of a budget or another part of the harness.
    Harness,
}

/// A model answered with tool calls, none of which has run yet. A session store keeps the answer
/// provisionally: it joins the conversation together with its results, at `tool-results:after`. A failing
/// handler stops the run before any of the calls.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionOpenTurn {
    /// Run that the turn belongs to.
    pub run_id: RunId,
    /// Turn in which the model made the calls.
    pub turn_id: TurnId,
    /// The answer with the calls.
    pub message: Arc<Message>,
    /// Usage of the turn.
    pub usage: TurnUsage,
}
notify!(SessionOpenTurn, "session:open-turn", ON_ERROR = OnError::Throw, CANCELLABLE = false);

/// A new conversation begins, or a stored one is resumed. Plugins drop their state of the conversation
/// before, and find the entries here that they appended to this one. Announced before all other events of its
/// first run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionLoaded {
    /// The session, if there is one.
    pub session_id: Option<SessionId>,
    /// Entries of the loaded branch, from the root to the leaf. A large beginning that a compaction left out
    /// is looked up on demand. Empty for a new conversation.
    pub entries: Arc<[Entry]>,
}
notify!(SessionLoaded, "session:loaded");

/// The conversation switched to another session, or to none. Announced once after the session's plugins are
/// installed and before its first run, so that front-ends rebuild their view.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionSwitch {
    /// Session before the switch, if there was one.
    pub from: Option<SessionId>,
    /// Session after the switch, if there is one.
    pub to: Option<SessionId>,
    /// Entries of the session's branch, as in `session:loaded`; empty for a new conversation.
    pub entries: Arc<[Entry]>,
}
impl SessionSwitch {
    /// Whether only the same session was reloaded.
    #[must_use]
    pub fn is_same_session(&self) -> bool {
        self.to.is_some() && self.from == self.to
    }
}

notify!(SessionSwitch, "session:switch", CANCELLABLE = false);

/// A plugin's entry was appended to the session and stored. Entries of `session:before-end` are in
/// `session:end` instead.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionEntry {
    /// The stored entry.
    pub entry: CustomEntry,
}
notify!(SessionEntry, "session:entry", CANCELLABLE = false);

/// A run is about to end. Plugins may append entries, which are stored before the end of the run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionBeforeEnd {
    /// The session, if there is one.
    pub session_id: Option<SessionId>,
    /// Id of the run that is about to end.
    pub run_id: RunId,
    /// Outcome of the run.
    pub status: RunStatus,
    /// Entries to append, collected so far.
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
    /// Id of the run that ended.
    pub run_id: RunId,
    /// Outcome of the run.
    pub status: RunStatus,
    /// Index in the history of the run's first message.
    pub from: usize,
    /// Index in the history behind the run's last message.
    pub to: usize,
    /// Entries to store before the end of the run: the plugins' from `session:before-end`, and fingerprints
    /// that the next process compares its first request with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<CustomEntry>,
}
notify!(SessionEnd, "session:end", ON_ERROR = OnError::Throw, CANCELLABLE = false);

/// Answer to a `session:before-*` event.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionBeforeReply {
    /// Whether to cancel the operation; later handlers are not asked then.
    pub cancel: bool,
    /// Reason for the cancellation.
    pub reason: Option<String>,
    /// Data that the handler supplies instead of the default, such as a summary.
    pub data: Option<Value>,
}

impl SessionBeforeReply {
    /// Returns the summary that a handler of `session:before-compact` supplied in `data`: a text, or an
    /// object with the text as `summary`.
    ///
    /// # Errors
    /// [`NotASummary`] when `data` is something else, or blank.
    pub fn summary(&self) -> Result<Option<&str>, NotASummary> {
        let Some(data) = &self.data else { return Ok(None) };
        let text = data.as_str().or_else(|| data.get("summary")?.as_str());
        text.filter(|text| !text.trim().is_empty()).map(Some).ok_or(NotASummary)
    }
}

/// A plugin supplied a summary that is no text, or a blank one.
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

/// Another session is about to be opened. The last answer wins unless a handler cancels.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionBeforeSwitch {
    /// The current session.
    pub from: Option<SessionId>,
    /// Session to be opened; `None` for a new session.
    pub to: Option<SessionId>,
}

impl Event for SessionBeforeSwitch {
    const NAME: &'static str = "session:before-switch";
    type Reply = SessionBeforeReply;
    type Mode = LastOrStop;
}

/// A session is about to be copied up to an entry. The last answer wins unless a handler cancels.
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

/// The leaf of a session is about to move. The last answer wins unless a handler cancels.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionBeforeTree {
    /// Session whose leaf moves.
    pub session_id: SessionId,
    /// The current leaf.
    pub from: Option<EntryId>,
    /// Entry that the branch will continue from; a prompt's branch continues before it.
    pub to: EntryId,
}

impl Event for SessionBeforeTree {
    const NAME: &'static str = "session:before-tree";
    type Reply = SessionBeforeReply;
    type Mode = LastOrStop;
}

/// The leaf of a session moved to another entry. The conversation's new content follows in [`SessionSwitch`].
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionTree {
    /// Session whose leaf moved.
    pub session_id: SessionId,
    /// Leaf before the move.
    pub from: Option<EntryId>,
    /// Entry that the present branch continues from; `None` for the time before the first entry.
    pub to: Option<EntryId>,
    /// Whether a summary of the branch that was left follows it.
    pub has_summary: bool,
}

notify!(SessionTree, "session:tree", CANCELLABLE = false);

/// The context is about to be compacted: a person or plugin asked for it, or a request exceeds the upper
/// threshold or did not fit. The last answer wins unless a handler cancels. `data` may be the whole summary,
/// and then no strategy is asked for one. The result is announced as
/// [`ContextCompaction`](super::ContextCompaction).
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SessionBeforeCompact {
    /// The session, if there is one.
    pub session_id: Option<SessionId>,
    /// Estimated tokens of the current context.
    pub tokens: u64,
    /// The person's instructions for the summary.
    pub instructions: Option<String>,
    /// Cause of the compaction.
    pub trigger: CompactionTrigger,
}

impl Event for SessionBeforeCompact {
    const NAME: &'static str = "session:before-compact";
    type Reply = SessionBeforeReply;
    type Mode = LastOrStop;
}
