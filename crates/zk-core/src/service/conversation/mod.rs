mod expanded_prompts;
mod part_models;
mod preset_parts;
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

pub use expanded_prompts::ExpandedPrompts;
pub use part_models::{
    AgentPart, COMPRESS_PART, EMBEDDINGS_PART, EXPLORE_PART, KNOWN_PARTS, KnownPart, PartFallback, PartModel,
    PartModels, SUBGOAL_PART, SUMMARY_PART, SUPERVISOR_PART, TITLE_PART, part_fallback,
};
pub use preset_parts::{PresetParts, PresetServer, PresetSkill};
pub use run_control::{RunControl, RunEnded, RunState, RunningAgents, SideAnswer, SideCall};

/// A conversation of a person with an agent, as a front-end uses it: its messages and its current session.
///
/// At most one run is active. While none is, [`switch`](Self::switch) can replace the conversation, and
/// leaves no state of the old one.
#[async_trait]
pub trait Conversation: Send + Sync {
    /// Returns the current session and activity.
    fn state(&self) -> ConversationState;

    /// Sends a prompt. During a run it is queued until the run's answer is complete; otherwise a new run
    /// begins, which continues after this call returns.
    ///
    /// # Errors
    /// [`ConversationError::Agent`] when a run cannot begin.
    async fn submit(&self, prompt: Vec<Block>) -> Result<Submitted, ConversationError>;

    /// Interrupts the run with a message, after the current call.
    ///
    /// # Errors
    /// [`RunEnded`] with the message when no run takes it.
    fn steer(&self, message: Message) -> Result<(), RunEnded>;

    /// Sends a message that no person typed, such as one of a command or plugin; it should name its source
    /// ([`Message::injected_by`]).
    ///
    /// # Errors
    /// [`ConversationError::Agent`] when a run cannot begin.
    async fn deliver(&self, message: Message, delivery: Delivery) -> Result<Submitted, ConversationError>;

    /// Answers a pending question; `digest` proves that the person saw its current form.
    ///
    /// # Errors
    /// [`AnswerError`] when the question is closed or has changed since.
    fn answer(&self, id: QuestionId, digest: QuestionDigest, answer: UiAnswer) -> Result<(), AnswerError>;

    /// Stops the current run, if any, with this reason. Returns whether there was one.
    fn cancel(&self, reason: &str) -> bool;

    /// Waits until no run is active, and returns the messages that no run delivered.
    async fn idle(&self) -> Vec<Arc<Message>>;

    /// Switches to another session, another branch of this one, or a new session. When it fails, the
    /// conversation stays unchanged, except for [`ConversationError::Install`].
    ///
    /// # Errors
    /// [`ConversationError`] when the conversation cannot be switched.
    async fn switch(&self, to: SwitchTarget) -> Result<ConversationState, ConversationError>;

    /// Compacts the context before the next request.
    ///
    /// # Errors
    /// [`ConversationError`] when the context cannot be compacted now.
    async fn compact(&self, instructions: Option<String>) -> Result<(), ConversationError>;

    /// Reads the current session again from its store, and reinstalls its plugins.
    ///
    /// # Errors
    /// As [`Conversation::switch`].
    async fn reload(&self) -> Result<ConversationState, ConversationError>;

    /// Changes the working directory, from the next turn on.
    fn set_cwd(&self, cwd: PathBuf);

    /// Sets or removes an environment variable of commands, from the next turn on. Switching sessions removes
    /// all of them.
    fn set_env(&self, name: String, value: Option<String>);
}

/// Delivery of messages from outside of any run, which may begin one: `bus.service::<dyn MessageDelivery>()`.
/// Absent without a conversation. Unlike [`Conversation`], plugins may use it at any time: it waits for no run.
#[async_trait]
pub trait MessageDelivery: Send + Sync {
    /// Sends a message, as [`Conversation::deliver`] does.
    ///
    /// # Errors
    /// [`ConversationError`] when a run cannot begin, or the conversation is over.
    async fn deliver(&self, message: Message, delivery: Delivery) -> Result<Submitted, ConversationError>;
}

/// Environment variables that the conversation adds to those of the execution context, for the commands of a
/// turn: `cx.service::<TurnEnv>()`. They stay fixed until the turn ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnEnv(pub BTreeMap<String, String>);

/// Working directory of tools during a turn: `cx.service::<TurnCwd>()`. Commands of a person, which run
/// outside of turns, see the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnCwd(pub PathBuf);

impl TurnCwd {
    /// Returns the working directory for `cx`, if an absolute path is known: the turn's, or outside of turns
    /// the current one.
    #[must_use]
    pub fn of(cx: &Cx) -> Option<PathBuf> {
        let turn = cx.service::<Self>().map(|cwd| cwd.0.clone());
        turn.or_else(|| cx.service::<dyn CurrentCwd>()?.cwd()).filter(|cwd| cwd.is_absolute())
    }
}

/// Working directory of an agent's next turn, as a service that the agent provides on its bus.
pub trait CurrentCwd: Send + Sync {
    /// Returns the directory; `None` once the agent is dropped.
    fn cwd(&self) -> Option<PathBuf>;
}

/// State of a conversation: its session and activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationState {
    /// Id of the session; `None` if the conversation is not stored.
    pub session: Option<SessionId>,
    /// Number of messages in the history.
    pub messages: usize,
    /// Working directory of tools.
    pub cwd: PathBuf,
    /// Id of the active run, if any.
    pub run: Option<RunId>,
    /// Number of messages queued for that run.
    pub queued: usize,
}

/// Result of submitting a prompt or message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// A new run began with the message.
    Started(RunId),
    /// The message is queued for the active run: delivered after the current call if it interrupts, otherwise
    /// when the model is done.
    Queued(RunId),
    /// The message joins the conversation with the next prompt.
    Waiting,
}

/// Moment at which a message joins a conversation ([`Conversation::deliver`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// After the current call of the active run. Without an active run, a new one begins.
    Steer,
    /// When the model is done. Without an active run, a new one begins.
    FollowUp,
    /// Right after the person's next prompt. It begins no run, and the active run does not see it.
    NextPrompt,
}

/// Target to switch a conversation to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SwitchTarget {
    /// A new session without messages.
    New,
    /// Another stored session.
    Session(SessionId),
    /// The branch of the current session that ends with this entry.
    Branch(EntryId),
    /// Another branch of the current session, with a summary of the one that is left.
    Tree(TreeMove),
    /// A new session with a copy of the current one up to this entry.
    Fork(EntryId),
}

/// Move of the present session's leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeMove {
    /// Entry that the branch continues from; `None` for the time before the first entry.
    #[serde(default)]
    pub to: Option<EntryId>,
    /// Summary of the branch that is left, up to the common ancestor; `None` for no summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<BranchSummary>,
}

/// Summary that a model makes of a branch before it is left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BranchSummary {
    /// The person's instructions for the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// Path from the present leaf of a session to another leaf.
#[derive(Clone, Debug, Default)]
pub struct BranchPath {
    /// The present leaf.
    pub from: Option<EntryId>,
    /// Messages of the present branch after the common ancestor.
    pub left: Vec<Arc<Message>>,
}

impl SwitchTarget {
    /// Returns the move of the leaf that this target stands for, if it is one.
    #[must_use]
    pub fn tree_move(&self) -> Option<TreeMove> {
        match self {
            Self::Branch(entry) => Some(TreeMove { to: Some(entry.clone()), summary: None }),
            Self::Tree(wanted) => Some(wanted.clone()),
            Self::New | Self::Session(_) | Self::Fork(_) => None,
        }
    }
}

impl fmt::Display for SwitchTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("a new session"),
            Self::Session(id) => write!(f, "session {id}"),
            Self::Branch(entry) | Self::Tree(TreeMove { to: Some(entry), .. }) => {
                write!(f, "the branch at {entry}")
            }
            Self::Tree(TreeMove { to: None, .. }) => f.write_str("the beginning of the session"),
            Self::Fork(entry) => write!(f, "a copy up to {entry}"),
        }
    }
}

/// Opens the sessions that a conversation switches to. The host of a [`Conversation`] provides it.
#[async_trait]
pub trait SessionOpener: Send + Sync {
    /// Opens `target`. The session `from` is still open, unless it is the target itself.
    ///
    /// # Errors
    /// [`ConversationError`]; no new session stays open then.
    async fn open(
        &self,
        target: &SwitchTarget,
        from: Option<&SessionId>,
    ) -> Result<OpenedSession, ConversationError>;

    /// Finds the path from the present leaf of the current session to the entry `to`. Changes nothing.
    ///
    /// # Errors
    /// [`ConversationError`], such as an unknown entry, or a host whose sessions have no branches.
    async fn find_path(&self, to: Option<&EntryId>) -> Result<BranchPath, ConversationError> {
        let what = SwitchTarget::Tree(TreeMove { to: to.cloned(), summary: None }).to_string();
        let reason = "the sessions of this program have no branches".to_owned();
        Err(ConversationError::Unsupported { what, reason })
    }

    /// Moves the leaf of the current session after the entry `to`, and adds `summary` as a message there. The
    /// current session stays open, and the returned session continues it.
    ///
    /// # Errors
    /// [`ConversationError`]; the leaf is where it was then.
    async fn move_leaf(
        &self,
        to: Option<&EntryId>,
        summary: Option<String>,
    ) -> Result<OpenedSession, ConversationError> {
        let _ = summary;
        self.find_path(to).await?;
        Ok(OpenedSession::default())
    }
}

/// An opened session for a conversation to continue.
#[derive(Clone, Default)]
pub struct OpenedSession {
    /// Id of the session; `None` if it is not stored.
    pub id: Option<SessionId>,
    /// Message history of the session.
    pub messages: Vec<Arc<Message>>,
    /// Stored entries that the session continues from ([`LiveEntries`](super::LiveEntries)), for
    /// `session:loaded`.
    pub entries: Arc<[Entry]>,
    /// Model that the session used last; `None` keeps the conversation's model.
    pub model: Option<Model>,
    /// Thinking level that the session used last; `None` keeps the conversation's.
    pub thinking: Option<ThinkingLevel>,
    /// Working directory of the session; `None` keeps the conversation's.
    pub cwd: Option<PathBuf>,
    /// Plugins of this session only: its recorder, its store of large results, [`Files`](super::Files) with
    /// their own root, a clean-up that closes it. They are installed while the conversation has this session,
    /// and removed in reverse order.
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

/// Reason for which a conversation rejects a request.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// A run is active.
    #[error("a run is in progress: stop it, or wait for its end")]
    Busy,
    /// A plugin refused the request.
    #[error("a plugin keeps this conversation from going on with {what}: {reason}")]
    Refused {
        /// Description of the request.
        what: String,
        /// Reason for the refusal.
        reason: String,
    },
    /// The host does not support the request.
    #[error("{what} is not possible here: {reason}")]
    Unsupported {
        /// Description of the request.
        what: String,
        /// Reason, and the alternative.
        reason: String,
    },
    /// The session store failed to open the session.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session was opened, but a plugin of it could not be installed. The old session is closed: the
    /// conversation continues without a session and without messages.
    #[error("the session was left and the other one cannot be used, so nothing is stored from here on: {0}")]
    Install(BoxError),
    /// The leaf was moved, and a plugin failed then. The leaf is back, and the conversation continues where it was.
    #[error("the leaf is back where it was, and the conversation goes on there, since a plugin failed: {0}")]
    LeafPutBack(BoxError),
    /// The agent failed, or a handler failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

impl From<EmitError> for ConversationError {
    fn from(error: EmitError) -> Self {
        Self::Agent(error.into())
    }
}
