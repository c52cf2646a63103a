use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::{Message, ModelRef, TurnId};
use crate::service::WindowLevel;

/// The messages about to be sent. A handler answers with the list to send instead; the stored history does
/// not change.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextTransform {
    /// The turn.
    pub turn_id: TurnId,
    /// The messages so far.
    pub messages: Vec<Arc<Message>>,
    /// Tokens that the model's window holds, if known.
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
    /// The messages of a turn, before anybody rewrote them.
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

/// The conversation does not fit the model's window: its provider refused it as too long, or the window was
/// full before the answer was complete.
///
/// A handler of [`ContextTransform`] that can leave something out does so from now on. The messages are put
/// together again after this event, and if they became less, the model is asked again at once: once for a request
/// that was refused, and to go on where its answer was cut. Otherwise the run ends with the error.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextOverflow {
    /// The turn.
    pub turn_id: TurnId,
    /// The model.
    pub model: ModelRef,
    /// The tokens its window holds, if known: what is sent and the answer together.
    pub window: Option<u64>,
    /// Size that was sent, by [`context_size`](crate::model::context_size).
    pub size: usize,
    /// Error message of the provider.
    pub error: String,
}
notify!(ContextOverflow, "context:overflow");

/// Something is left out of what is sent from now on. The stored history does not change.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextReduced {
    /// The turn.
    pub turn_id: TurnId,
    /// The strategy that planned it.
    pub strategy: String,
    /// Tool results that became a stub, or shorter.
    pub results: usize,
    /// Messages that are not sent any more.
    pub messages: usize,
    /// Size that would have been sent, by [`context_size`](crate::model::context_size).
    pub before: usize,
    /// Size that is sent now.
    pub after: usize,
}
notify!(ContextReduced, "context:reduced");

/// Fill of the context window, as of the request that is about to be sent. Announced when it changed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextFill {
    /// The turn.
    pub turn_id: TurnId,
    /// Tokens of the request, estimated.
    pub tokens: u64,
    /// Tokens that a request may have: the window without room for the answer. Nothing where the window is not known.
    pub usable: Option<u64>,
    /// Thresholds that it exceeds.
    pub level: WindowLevel,
    /// Compactions of this conversation so far.
    pub compactions: u32,
}
notify!(ContextFill, "context:fill");

/// A decision of the owner of the context window about making a conversation smaller, or what came of it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ContextCompaction {
    /// The turn.
    pub turn_id: TurnId,
    /// Cause of the compaction.
    pub trigger: CompactionTrigger,
    /// Stage of the compaction.
    pub stage: CompactionStage,
    /// Estimated tokens of the request before it.
    pub before: u64,
    /// Estimated tokens of the request now.
    pub after: u64,
    /// The strategies that left something out, in order.
    pub strategies: Vec<String>,
    /// Note for a person: why it failed, what fills the window, what can be done.
    pub note: Option<String>,
}
notify!(ContextCompaction, "context:compaction");

/// Cause for which a conversation is made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// The request exceeds the lower threshold: what was prepared is applied.
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
    /// Compactions freed too little twice in a row: no more is tried until a person does something.
    Stopped,
    /// A plugin kept the conversation as it is.
    Cancelled,
    /// A strategy takes longer than a request waits: the request is sent as it is, and a later one is made smaller.
    Deferred,
    /// A person took one back: what it left out is sent again from this request on.
    Undone,
    /// Everything that was left out is sent again from this request on: the window of another model has the room.
    Restored,
}
