mod run_control;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{AnswerError, Entry, QuestionDigest, QuestionId, StoreError, UiAnswer};
use crate::kernel::{BoxError, Cx, EmitError, Plugin};
use crate::model::{AgentError, Block, EntryId, Message, Model, RunId, SessionId, ThinkingLevel};

pub use run_control::{RunControl, RunEnded, RunState, SideAnswer, SideCall};

/// A conversation of a person with an agent, as a front-end has it: what is said in it, and which session it is.
///
/// One run works at a time. The conversation itself can be replaced while none does: [`switch`](Self::switch)
/// leaves nothing of the one before.
#[async_trait]
pub trait Conversation: Send + Sync {
    /// Returns which conversation it is now, and what it is doing.
    fn state(&self) -> ConversationState;

    /// Sends a prompt. While a run works it waits for the end of the run's answer; otherwise a run begins, which
    /// goes on when this returns.
    ///
    /// # Errors
    /// [`ConversationError::Agent`] when a run cannot begin.
    async fn submit(&self, prompt: Vec<Block>) -> Result<Submitted, ConversationError>;

    /// Interrupts the run with a message, after the present call.
    ///
    /// # Errors
    /// [`RunEnded`] with the message when no run takes it.
    fn steer(&self, message: Message) -> Result<(), RunEnded>;

    /// Sends a message that no person typed, as of a command or a plugin; it should say whose it is
    /// ([`Message::injected_by`]).
    ///
    /// # Errors
    /// [`ConversationError::Agent`] when a run cannot begin.
    async fn deliver(&self, message: Message, delivery: Delivery) -> Result<Submitted, ConversationError>;

    /// Answers a pending question, as it was shown.
    ///
    /// # Errors
    /// [`AnswerError`] when the question is over or looks different by now.
    fn answer(&self, id: QuestionId, digest: QuestionDigest, answer: UiAnswer) -> Result<(), AnswerError>;

    /// Stops the run, if there is one, for this reason. Gives whether there was one.
    fn cancel(&self, reason: &str) -> bool;

    /// Waits until no run works, and gives back the messages that no run delivered.
    async fn idle(&self) -> Vec<Arc<Message>>;

    /// Goes on with another session, another branch of this one, or a new session. When it fails, the conversation
    /// stays as it was, unless [`ConversationError::Install`] says otherwise.
    ///
    /// # Errors
    /// [`ConversationError`].
    async fn switch(&self, to: SwitchTarget) -> Result<ConversationState, ConversationError>;

    /// Makes the next request smaller.
    ///
    /// # Errors
    /// [`ConversationError`].
    async fn compact(&self, instructions: Option<String>) -> Result<(), ConversationError>;

    /// Reads the present session anew from its store, and installs what belongs to it anew.
    ///
    /// # Errors
    /// As [`Conversation::switch`].
    async fn reload(&self) -> Result<ConversationState, ConversationError>;

    /// Works in another directory, from the next turn on.
    fn set_cwd(&self, cwd: PathBuf);

    /// Gives commands an environment variable, or no longer gives it, from the next turn on. Another session begins
    /// without any.
    fn set_env(&self, name: String, value: Option<String>);
}

/// The environment variables that the conversation gives the commands of a turn, beside those of the context they run in:
/// `cx.service::<TurnEnv>()`. They stay as they are until the turn ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnEnv(pub BTreeMap<String, String>);

/// The directory that tools work in during a turn: `cx.service::<TurnCwd>()`. Commands of a conversation find where it is
/// now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnCwd(pub PathBuf);

impl TurnCwd {
    /// Returns the directory that `cx` works in, if that is known as an absolute path: in its turn, or now
    /// outside of turns.
    #[must_use]
    pub fn of(cx: &Cx) -> Option<PathBuf> {
        let turn = cx.service::<Self>().map(|cwd| cwd.0.clone());
        turn.or_else(|| cx.service::<dyn CurrentCwd>()?.cwd()).filter(|cwd| cwd.is_absolute())
    }
}

/// The directory that the next turn of an agent works in: a service of its bus, which the agent provides.
pub trait CurrentCwd: Send + Sync {
    /// The directory; nothing once the agent is gone.
    fn cwd(&self) -> Option<PathBuf>;
}

/// State of a conversation: which one it is, and what it is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationState {
    /// The session; nothing when the conversation is not stored.
    pub session: Option<SessionId>,
    /// The number of its messages.
    pub messages: usize,
    /// The directory that tools work in.
    pub cwd: PathBuf,
    /// The run that works.
    pub run: Option<RunId>,
    /// Messages that wait for that run to take them.
    pub queued: usize,
}

/// Outcome of submitting a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// A run began with it.
    Started(RunId),
    /// The run that works gets it: after the present call where it is to interrupt, otherwise when the model is done.
    Queued(RunId),
    /// The message joins the conversation with the next prompt.
    Waiting,
}

/// Moment at which a message joins a conversation ([`Conversation::deliver`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// After the present call of the run that works. While none does, a run begins with it.
    Steer,
    /// When the model is done. While no run works, one begins with it.
    FollowUp,
    /// Right after the person's next prompt. It begins no run, and the run that works does not see it.
    NextPrompt,
}

/// Target to switch a conversation to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SwitchTarget {
    /// A new session without messages.
    New,
    /// A stored session.
    Session(SessionId),
    /// The branch of this session whose leaf is this entry.
    Branch(EntryId),
    /// A new session with what this one has up to this entry.
    Fork(EntryId),
}

impl fmt::Display for SwitchTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("a new session"),
            Self::Session(id) => write!(f, "session {id}"),
            Self::Branch(entry) => write!(f, "the branch at {entry}"),
            Self::Fork(entry) => write!(f, "a copy up to {entry}"),
        }
    }
}

/// Opens the sessions that a conversation is switched to: what the host of a [`Conversation`] provides.
#[async_trait]
pub trait SessionOpener: Send + Sync {
    /// Opens `target`. The session `from` is still open, unless it is the one to be opened.
    ///
    /// # Errors
    /// [`ConversationError`]; nothing stays open then.
    async fn open(
        &self,
        target: &SwitchTarget,
        from: Option<&SessionId>,
    ) -> Result<OpenedSession, ConversationError>;
}

/// A session that a conversation goes on with.
#[derive(Clone, Default)]
pub struct OpenedSession {
    /// Id of the session; nothing when it is not stored.
    pub id: Option<SessionId>,
    /// Messages of the session.
    pub messages: Vec<Arc<Message>>,
    /// Stored entries that it goes on from ([`LiveEntries`](super::LiveEntries)), for `session:loaded`.
    pub entries: Arc<[Entry]>,
    /// The model it used last; that of the conversation before, if nothing.
    pub model: Option<Model>,
    /// The reasoning it used last.
    pub thinking: Option<ThinkingLevel>,
    /// The directory tools work in; that of the conversation before, if nothing.
    pub cwd: Option<PathBuf>,
    /// Plugins of the session alone: its recorder, the place of its large results, the
    /// [`Files`](super::Files) of a root of its own, a clean-up that closes it. Installed while it is the
    /// conversation's, and closed in reverse order.
    pub plugins: Vec<Arc<dyn Plugin>>,
}

impl fmt::Debug for OpenedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedSession")
            .field("id", &self.id)
            .field("messages", &self.messages.len())
            .field("entries", &self.entries.len())
            .field("model", &self.model)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// Reason for which a conversation does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// A run works.
    #[error("a run is in progress: stop it, or wait for its end")]
    Busy,
    /// A plugin was asked and said no.
    #[error("a plugin keeps this conversation from going on with {what}: {reason}")]
    Refused {
        /// Request that was made, in words.
        what: String,
        /// Reason for the refusal.
        reason: String,
    },
    /// Nothing here can do it.
    #[error("{what} is not possible here: {reason}")]
    Unsupported {
        /// Request that was made, in words.
        what: String,
        /// Reason for the refusal, and what to do instead.
        reason: String,
    },
    /// The session cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session was opened, and what belongs to it could not be installed. The session before is closed: the
    /// conversation goes on without one, and without messages.
    #[error("the session was left and the other one cannot be used, so nothing is stored from here on: {0}")]
    Install(BoxError),
    /// The agent refused, or a handler failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

impl From<EmitError> for ConversationError {
    fn from(error: EmitError) -> Self {
        Self::Agent(error.into())
    }
}
