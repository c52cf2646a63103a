use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::ContextId;
use crate::kernel::{BoxError, Cx};
use crate::model::Message;

/// The owner of the context window: it knows how full a conversation's window is and decides when less is sent.
/// `cx.service::<dyn ContextWindow>()`.
///
/// Strategies say what is left out ([`WindowStrategy`]); the stored history never changes.
#[async_trait]
pub trait ContextWindow: Send + Sync {
    /// Returns the fill of a conversation's window; nothing before its first request.
    fn fill(&self, context: &ContextId) -> Option<WindowFill>;

    /// Returns what is sent now of `history`, the messages of a conversation; nothing where all of it is.
    fn sent(&self, context: &ContextId, history: &[Arc<Message>]) -> Option<Vec<Arc<Message>>>;

    /// Makes the next request of a conversation smaller, as if it had not fitted.
    fn reduce(&self, context: &ContextId, how: Reduction);

    /// Sends again what the last compaction of a conversation left out, from the next request on. Gives whether there
    /// was one. Where a part of the conversation was not read ([`SessionLog::earlier`](crate::service::SessionLog::earlier)), it is
    /// stored, and done once the host has read the conversation again
    /// ([`Conversation::reload`](crate::service::Conversation::reload)).
    ///
    /// # Errors
    /// When that cannot be stored, also where the session was lost at its beginning; nothing changes then. It may be stored
    /// and not done where this future is dropped before it answers.
    async fn restore(&self, context: &ContextId, cx: &Cx) -> Result<bool, BoxError>;

    /// Takes the reason for which the request that was just put together must not be sent, told once: what
    /// was tried to make it smaller did not help.
    fn take_refusal(&self, context: &ContextId) -> Option<String>;
}

/// Request to make a conversation smaller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Instructions for a strategy that asks a model.
    pub instructions: Option<String>,
    /// Summary that stands for the messages that leave. Strategies are asked only for what it does not free.
    pub summary: Option<String>,
}

/// Fill of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowFill {
    /// Tokens of the last request and its answer, as the provider counted them.
    pub tokens: Option<u64>,
    /// Tokens that the window holds, if known.
    pub window: Option<u64>,
    /// Size of what was sent last, by [`context_size`](crate::model::context_size).
    pub bytes: usize,
    /// Tokens of the request as it would be sent now, estimated: what the provider counted last, and what came since.
    pub estimate: u64,
    /// Tokens that a request may have: the window without room for the answer. Nothing where the window is not known.
    pub usable: Option<u64>,
    /// Thresholds that the request exceeds.
    pub level: WindowLevel,
    /// Compactions of this conversation so far.
    pub compactions: u32,
    /// The last of them.
    pub last: Option<Compacted>,
}

/// Thresholds that a request exceeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WindowLevel {
    /// None.
    #[default]
    Low,
    /// The lower one: what was prepared to make it smaller is applied.
    Soft,
    /// The upper one: the conversation is compacted.
    Hard,
}

/// Figures of one compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compacted {
    /// Estimated tokens before it.
    pub before: u64,
    /// Estimated tokens after it.
    pub after: u64,
    /// Time of it, in milliseconds since 1970.
    pub at_ms: u64,
}

/// Text that outlives compactions: a registry item. After each, the owner of the window asks for it and sends it,
/// byte for byte, behind what is left of the conversation's beginning. Where all that left was within results, nothing is
/// asked for.
///
/// For what governs the work and is not in the system prompt: open to-dos, sub-agents that run, loaded skills,
/// instructions of subdirectories.
#[async_trait]
pub trait PinnedContext: Send + Sync {
    /// The text; nothing when there is none now.
    ///
    /// # Errors
    /// One that fails, panics or takes longer than five seconds is left out and announced as
    /// [`PartLeftOut`](crate::events::PartLeftOut).
    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError>;
}

/// A way to make a conversation smaller: a registry item. The owner of the window asks strategies by
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
    /// Place among the strategies, lowest first: what loses least comes first.
    fn order(&self) -> i32;

    /// Plans what should leave, and what replaces it; nothing when all of it may be sent.
    ///
    /// # Errors
    /// A strategy that fails, panics, takes too long or answers with a plan that cannot be carried out is left out and
    /// announced as [`PartLeftOut`](crate::events::PartLeftOut). A request that fits waits half a minute, and the plan is
    /// made meanwhile for a later one.
    async fn plan(&self, view: &WindowView<'_>, cx: &Cx) -> Result<Option<WindowPlan>, BoxError>;
}

/// Cause for which a strategy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowCause {
    /// A request is about to be sent: a strategy with a threshold of its own looks at it.
    Turn,
    /// As [`Turn`](Self::Turn), with a request that exceeds the lower threshold: what was prepared is
    /// applied. Nothing may take long.
    Soft,
    /// The conversation does not fit, or somebody asked for less: [`WindowView::target`] says how much may be left.
    Full,
}

/// A conversation as it would be sent now.
#[derive(Clone, Copy, Debug)]
pub struct WindowView<'a> {
    /// Cause for which the strategy is asked.
    pub cause: WindowCause,
    /// The messages; what was left out earlier is not among them.
    pub messages: &'a [Arc<Message>],
    /// Size of the messages, by [`context_size`](crate::model::context_size).
    pub bytes: usize,
    /// Number of messages of the history that are not sent any more.
    pub left_out: usize,
    /// Tokens that the model's window holds, if known.
    pub window: Option<u64>,
    /// Tokens that are kept free for the answer.
    pub reserve: u64,
    /// Largest size that all of it may have, by [`context_size`](crate::model::context_size).
    pub target: usize,
    /// Size of the newest messages that should be sent as they are, by
    /// [`context_size`](crate::model::context_size).
    pub keep: usize,
    /// Instructions of the person for a summary.
    pub instructions: Option<&'a str>,
    /// Number of the first messages that a person took back from a compaction: they stay as they are, and do
    /// not count for a threshold of a strategy's own, until the conversation is compacted again.
    pub taken_back: usize,
}

/// Plan of what leaves a conversation, and what replaces it. Indices are those of [`WindowView::messages`].
#[derive(Clone, Debug, Default)]
pub struct WindowPlan {
    /// Messages that are sent in another form.
    pub replace: Vec<(usize, Arc<Message>)>,
    /// Messages that leave, and what stands in their place.
    pub cut: Option<(Range<usize>, Vec<Arc<Message>>)>,
    /// Number of tool results that became a stub or shorter.
    pub results: usize,
}

impl WindowPlan {
    /// Sends `message` in place of the one at `index`.
    #[must_use]
    pub fn replace(mut self, index: usize, message: Arc<Message>) -> Self {
        self.replace.push((index, message));
        self
    }

    /// Sends `with` in place of the messages of `range`.
    #[must_use]
    pub fn cut(mut self, range: Range<usize>, with: Vec<Arc<Message>>) -> Self {
        self.cut = Some((range, with));
        self
    }
}
