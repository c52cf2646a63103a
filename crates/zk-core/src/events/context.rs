use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{Message, ModelRef, TurnId};
use crate::service::{Compacted, WindowLevel};

/// The messages about to be sent. A handler answers with the list to send instead; the stored history does
/// not change.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextTransform {
    /// Turn that the messages are for.
    pub turn_id: TurnId,
    /// The messages so far.
    pub messages: Vec<Arc<Message>>,
    /// Size of the model's context window in tokens, if known.
    pub window: Option<u64>,
    #[serde(skip)]
    rewrites: Vec<Rewrite>,
}

/// The messages after one handler of [`ContextTransform`].
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// Source of the handler.
    pub source: Source,
    /// Messages that the handler returned.
    pub messages: Vec<Arc<Message>>,
}

impl ContextTransform {
    /// Creates the event with messages that no handler has rewritten yet.
    #[must_use]
    pub fn new(turn_id: TurnId, messages: Vec<Arc<Message>>, window: Option<u64>) -> Self {
        Self { turn_id, messages, window, rewrites: Vec::new() }
    }

    /// Returns the messages after each handler that answered, in order.
    #[must_use]
    pub fn rewrites(&self) -> &[Rewrite] {
        &self.rewrites
    }
}

impl Event for ContextTransform {
    const NAME: &'static str = "context:transform";
    type Reply = Vec<Arc<Message>>;
    type Mode = Fold;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
}

impl Absorb for ContextTransform {
    fn absorb(&mut self, reply: Self::Reply, source: &Source) -> ControlFlow<()> {
        self.rewrites.push(Rewrite { source: source.clone(), messages: reply.clone() });
        self.messages = reply;
        ControlFlow::Continue(())
    }
}

/// The conversation does not fit the model's window: the provider refused the request as too long, or the
/// window filled up before the answer was complete.
///
/// A handler of [`ContextTransform`] that can leave messages out does so from now on. After this event the
/// messages are built again. If they became shorter, the model is asked again at once: once after a refused
/// request, or to continue an answer that was cut. Otherwise the run ends with the error.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextOverflow {
    /// Turn whose request or answer exceeded the window.
    pub turn_id: TurnId,
    /// Model whose window was exceeded.
    pub model: ModelRef,
    /// Size of the model's window in tokens, request and answer together, if known.
    pub window: Option<u64>,
    /// Size of the sent messages, measured by [`context_size`](crate::model::context_size).
    pub size: usize,
    /// Error message of the provider.
    pub error: String,
}
notify!(ContextOverflow, "context:overflow");

/// Requests from now on leave out or shorten a part of the history. The stored history does not change.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextReduced {
    /// Turn from which on less is sent.
    pub turn_id: TurnId,
    /// Name of the strategy that planned the reduction.
    pub strategy: String,
    /// Number of tool results that were shortened or replaced by a stub.
    pub results: usize,
    /// Number of messages that are no longer sent.
    pub messages: usize,
    /// Size without this reduction, measured by [`context_size`](crate::model::context_size).
    pub before: usize,
    /// Size with this reduction.
    pub after: usize,
}
notify!(ContextReduced, "context:reduced");

/// Fill level of the context window by the request that is about to be sent. Announced when it changed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextFill {
    /// Turn that the request is for.
    pub turn_id: TurnId,
    /// Estimated tokens of the request.
    pub tokens: u64,
    /// Maximum number of tokens in a request: the window minus the room for the answer. `None` if the window
    /// is unknown.
    pub usable: Option<u64>,
    /// Highest threshold that the request exceeds.
    pub level: WindowLevel,
    /// Number of compactions of this conversation so far.
    pub compactions: u32,
    /// Figures of the last compaction; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Compacted>,
    /// Time since the last compaction, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
}
notify!(ContextFill, "context:fill");

/// Progress of a compaction: a decision of the plugin that manages the context window, or its result.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextCompaction {
    /// Turn whose request is compacted.
    pub turn_id: TurnId,
    /// Cause of the compaction.
    pub trigger: CompactionTrigger,
    /// Stage of the compaction.
    pub stage: CompactionStage,
    /// Estimated tokens of the request before the compaction.
    pub before: u64,
    /// Estimated tokens of the request after the stage.
    pub after: u64,
    /// Names of the strategies that left something out, in order of use.
    pub strategies: Vec<String>,
    /// Note for a person: why the compaction failed, what fills the window, what can be done.
    pub note: Option<String>,
}
notify!(ContextCompaction, "context:compaction");

/// Cause for which a conversation is made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// The request exceeds the lower threshold, so a prepared plan is applied.
    Soft,
    /// The request exceeds the upper threshold.
    Hard,
    /// The provider refused the request, or the window was full before the answer was complete.
    Overflow,
    /// A person or a plugin asked for the compaction.
    Manual,
}

/// Stage of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CompactionStage {
    /// The compaction begins, and may take a while.
    Began,
    /// The compaction freed enough.
    Done,
    /// The compaction freed too little.
    Failed,
    /// Two compactions in a row freed too little: no further attempt until a person acts.
    Stopped,
    /// A plugin cancelled the compaction.
    Cancelled,
    /// A strategy takes longer than the request may wait. The request is sent uncompacted, and a later
    /// request is reduced.
    Deferred,
    /// A person undid the compaction: its messages are sent again from this request on.
    Undone,
    /// All left-out messages are sent again from this request on, because the window of another model has
    /// room for them.
    Restored,
}
