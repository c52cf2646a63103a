use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::ContextId;
use crate::kernel::{BoxError, Cx};
use crate::model::Message;

/// Manager of the context window: tracks the fill of each conversation's window and decides when to reduce
/// what is sent. `cx.service::<dyn ContextWindow>()`.
///
/// Strategies ([`WindowStrategy`]) select what is left out; the stored history never changes.
#[async_trait]
pub trait ContextWindow: Send + Sync {
    /// Returns the fill of a conversation's window; `None` before its first request.
    fn fill(&self, context: &ContextId) -> Option<WindowFill>;

    /// Returns the messages to send instead of `history`, all messages of a conversation; `None` if all are
    /// sent.
    fn sent(&self, context: &ContextId, history: &[Arc<Message>]) -> Option<Vec<Arc<Message>>>;

    /// Reduces the next request of a conversation, as if it had exceeded the window.
    fn reduce(&self, context: &ContextId, how: Reduction);

    /// Undoes the last compaction of a conversation: its left-out messages are sent again from the next
    /// request on. Returns whether there was one. If a part of the conversation was not loaded
    /// ([`SessionLog::earlier`](crate::service::SessionLog::earlier)), the undo is stored, and takes effect
    /// once the host has reloaded the conversation
    /// ([`Conversation::reload`](crate::service::Conversation::reload)).
    ///
    /// # Errors
    /// An error when the undo cannot be stored, also if the beginning of the session was lost; nothing
    /// changes then. If this future is dropped early, the undo may be stored without having taken effect.
    async fn restore(&self, context: &ContextId, cx: &Cx) -> Result<bool, BoxError>;

    /// Takes the reason for which the request just built must not be sent: reducing it failed. Each reason is
    /// returned once.
    fn take_refusal(&self, context: &ContextId) -> Option<String>;
}

/// Options for reducing a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Instructions for a strategy that asks a model for a summary.
    pub instructions: Option<String>,
    /// Summary that replaces the removed messages. Strategies are asked only if it does not free enough.
    pub summary: Option<String>,
}

/// Fill of a context window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowFill {
    /// Tokens of the last request and its answer, as counted by the provider.
    pub tokens: Option<u64>,
    /// Size of the model's context window in tokens, if known.
    pub window: Option<u64>,
    /// Size of the last sent messages, measured by [`context_size`](crate::model::context_size).
    pub bytes: usize,
    /// Estimated tokens of a request sent now: the provider's last count plus an estimate for new messages.
    pub estimate: u64,
    /// Maximum number of tokens that a request may have: the window minus the room for the answer. `None` if
    /// the window is not known.
    pub usable: Option<u64>,
    /// Highest threshold that the request exceeds.
    pub level: WindowLevel,
    /// Number of compactions of this conversation so far.
    pub compactions: u32,
    /// Figures of the last compaction.
    pub last: Option<Compacted>,
}

/// Highest threshold that a request exceeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WindowLevel {
    /// No threshold is exceeded.
    #[default]
    Low,
    /// The lower threshold: a prepared plan is applied.
    Soft,
    /// The upper threshold: the conversation is compacted.
    Hard,
}

/// Figures of one compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compacted {
    /// Estimated tokens before the compaction.
    pub before: u64,
    /// Estimated tokens after the compaction.
    pub after: u64,
    /// Time of the compaction, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Text that survives compactions: a registry item. After each compaction, the manager of the window asks for
/// it and sends it, byte for byte, after the remaining beginning of the conversation. Not asked for if only
/// tool results were shortened.
///
/// Use it for content that governs the work and is not in the system prompt: open to-dos, running sub-agents,
/// loaded skills, instructions of subdirectories.
#[async_trait]
pub trait PinnedContext: Send + Sync {
    /// Returns the current text; `None` if there is none.
    ///
    /// # Errors
    /// An item that fails, panics or takes longer than five seconds is left out and announced as
    /// [`PartLeftOut`](crate::events::PartLeftOut).
    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError>;
}

/// A strategy to reduce a conversation: a registry item. The manager of the window asks strategies by
/// [`order`](Self::order) and name until enough is left out.
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use zk_core::kernel::{BoxError, Bus, Cx};
/// use zk_core::model::Message;
/// use zk_core::service::{WindowCause, WindowPlan, WindowStrategy, WindowView};
///
/// /// Sends the newest message alone.
/// struct Newest;
///
/// #[async_trait]
/// impl WindowStrategy for Newest {
///     fn order(&self) -> i32 {
///         900
///     }
///
///     async fn plan(&self, view: &WindowView<'_>, _: &Cx) -> Result<Option<WindowPlan>, BoxError> {
///         if view.cause != WindowCause::Full || view.messages.len() < 2 {
///             return Ok(None);
///         }
///         let note = Message::injected("[Earlier messages were left out.]", "newest").shared();
///         Ok(Some(WindowPlan::default().cut(0..view.messages.len() - 1, vec![note])))
///     }
/// }
///
/// Bus::new().scope("newest").provide::<dyn WindowStrategy>("newest", Arc::new(Newest)).unwrap();
/// ```
#[async_trait]
pub trait WindowStrategy: Send + Sync {
    /// Returns the position among the strategies, lowest first; the strategy with the smallest loss should
    /// come first.
    fn order(&self) -> i32;

    /// Plans which messages to leave out or replace; `None` if all may be sent.
    ///
    /// # Errors
    /// A strategy that fails, panics, takes too long or answers with an impossible plan is left out and
    /// announced as [`PartLeftOut`](crate::events::PartLeftOut). If the request fits the window, it waits at
    /// most half a minute, and the plan continues in the background for a later request.
    async fn plan(&self, view: &WindowView<'_>, cx: &Cx) -> Result<Option<WindowPlan>, BoxError>;
}

/// Reason for which a strategy is asked for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowCause {
    /// A request is about to be sent: for strategies with a threshold of their own.
    Turn,
    /// Like [`Turn`](Self::Turn), but the request exceeds the lower threshold: prepared plans are applied.
    /// Must be fast.
    Soft,
    /// The conversation exceeds the window, or a person or plugin asked for a reduction:
    /// [`WindowView::target`] is the size to reach.
    Full,
}

/// A conversation as it would be sent now, for a strategy.
#[derive(Clone, Copy, Debug)]
pub struct WindowView<'a> {
    /// Reason for which the strategy is asked.
    pub cause: WindowCause,
    /// Messages to be sent, without those left out earlier.
    pub messages: &'a [Arc<Message>],
    /// Size of the messages, measured by [`context_size`](crate::model::context_size).
    pub bytes: usize,
    /// Number of the history's messages that are already left out.
    pub left_out: usize,
    /// Size of the model's context window in tokens, if known.
    pub window: Option<u64>,
    /// Tokens reserved for the answer.
    pub reserve: u64,
    /// Size to reach for all messages, measured by [`context_size`](crate::model::context_size).
    pub target: usize,
    /// Size of the newest messages that should be kept unchanged, measured by
    /// [`context_size`](crate::model::context_size).
    pub keep: usize,
    /// The person's instructions for a summary.
    pub instructions: Option<&'a str>,
    /// Number of leading messages that a person restored from a compaction. They stay unchanged, and do not
    /// count towards a strategy's own threshold, until the conversation is compacted again.
    pub taken_back: usize,
}

/// A strategy's plan of removals and replacements. Indices refer to [`WindowView::messages`].
#[derive(Clone, Debug, Default)]
pub struct WindowPlan {
    /// Messages to send in another form, by index.
    pub replace: Vec<(usize, Arc<Message>)>,
    /// Range of messages to remove, and the messages to send instead.
    pub cut: Option<(Range<usize>, Vec<Arc<Message>>)>,
    /// Number of tool results that were shortened or replaced by a stub.
    pub results: usize,
}

impl WindowPlan {
    /// Replaces the message at `index` by `message`.
    #[must_use]
    pub fn replace(mut self, index: usize, message: Arc<Message>) -> Self {
        self.replace.push((index, message));
        self
    }

    /// Replaces the messages of `range` by `with`.
    #[must_use]
    pub fn cut(mut self, range: Range<usize>, with: Vec<Arc<Message>>) -> Self {
        self.cut = Some((range, with));
        self
    }
}
