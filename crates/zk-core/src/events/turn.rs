use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::notify;
use crate::kernel::{Absorb, Event, Fold, Source};
use crate::model::wire::Repair;
use crate::model::{
    Block, Budget, Message, ModelRef, Spent, ThinkingLevel, ThinkingRequest, TurnId, TurnUsage, Usage,
};

/// System prompt of the request that is about to be sent. A handler answers with the whole new prompt, for
/// this turn only. A prompt that changes from turn to turn breaks the provider's cache.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SystemTransform {
    /// Turn that the prompt is for.
    pub turn_id: TurnId,
    /// The turn's number in the run, from 1.
    pub turn: u32,
    /// The prompt so far.
    pub system: Arc<str>,
    #[serde(skip)]
    rewritten_by: Option<Source>,
}

impl SystemTransform {
    /// Creates the event with a prompt that no handler has rewritten yet.
    #[must_use]
    pub fn new(turn_id: TurnId, turn: u32, system: Arc<str>) -> Self {
        Self { turn_id, turn, system, rewritten_by: None }
    }

    /// Returns the source of the handler that rewrote the prompt last.
    #[must_use]
    pub fn rewritten_by(&self) -> Option<&Source> {
        self.rewritten_by.as_ref()
    }
}

impl Event for SystemTransform {
    const NAME: &'static str = "system:transform";
    type Reply = String;
    type Mode = Fold;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
}

impl Absorb for SystemTransform {
    fn absorb(&mut self, reply: String, source: &Source) -> ControlFlow<()> {
        self.system = reply.into();
        self.rewritten_by = Some(source.clone());
        ControlFlow::Continue(())
    }
}

/// The request about to be sent has another prefix than the request before, so the provider's prompt cache
/// misses from there on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PrefixBreak {
    /// Turn that the request is for.
    pub turn_id: TurnId,
    /// The first part that differs.
    pub part: PrefixPart,
    /// Cause of the break, as far as it was announced.
    pub cause: PrefixCause,
    /// Estimated tokens that the provider has to read anew.
    pub lost_tokens: u64,
    /// Estimated extra cost over reading these tokens from the cache, in US dollars, if known.
    pub cost: Option<f64>,
}
notify!(PrefixBreak, "prefix:break");

/// Part of a request, in the order in which providers cache the parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum PrefixPart {
    /// The list of tools.
    Tools {
        /// Name of the first tool that changed, was added or removed.
        first: String,
        /// Source that registered the tool, such as a plugin or `mcp:SERVER`, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// A section of the system prompt.
    Section {
        /// Id of the section; `system` is the agent's own prompt, `model` the model itself.
        id: String,
        /// Source that registered the section; for `system` the source that rewrote it last.
        source: String,
    },
    /// The reasoning request, for models that read the messages anew when it changes.
    Thinking {
        /// The new thinking level.
        level: ThinkingLevel,
    },
    /// The messages of the history.
    Messages {
        /// Index of the first message that differs, from 0. For the first request of a process, an earlier
        /// message may be named.
        first: usize,
        /// Plugin whose handler of `context:transform` answered differently than before, if that is the
        /// cause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
}

/// Cause for which the prefix of a request changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PrefixCause {
    /// The model was changed.
    ModelSwitch,
    /// The thinking level was changed, and the provider caches messages per level.
    ThinkingChanged,
    /// Tools were added, removed or changed, as `tools:changed` announced.
    ToolsChanged,
    /// The history was compacted, as `context:reduced` announced, or a compaction undone, as
    /// `context:compaction` announced.
    Reduction,
    /// Settings or files changed: a new run has another prompt section, or a new process other tools.
    Reloaded,
    /// No announced change explains it: a part that should be stable is not.
    Unexplained,
}

/// The history had to be repaired to be sendable. The stored history does not change.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct HistoryRepaired {
    /// Turn that the history is sent for.
    pub turn_id: TurnId,
    /// Repairs that were made.
    pub repairs: Vec<Repair>,
}
notify!(HistoryRepaired, "history:repaired");

/// A turn begins, and its request is final.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TurnBefore {
    /// Id of the turn that begins.
    pub turn_id: TurnId,
    /// Number of the turn in the run, from 1.
    pub turn: u32,
    /// Model that the request goes to.
    pub model: ModelRef,
    /// Number of messages in the request.
    pub messages: usize,
    /// Reasoning that the request asks for.
    pub thinking: ThinkingRequest,
}
notify!(TurnBefore, "turn:before");

/// The model's message is complete and not stored yet. A handler may answer with other content blocks; the
/// role cannot change.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MessageEnd {
    /// Turn that the message belongs to.
    pub turn_id: TurnId,
    /// The message so far.
    pub message: Message,
}

impl Event for MessageEnd {
    const NAME: &'static str = "message:end";
    type Reply = Vec<Block>;
    type Mode = Fold;
}

impl Absorb for MessageEnd {
    fn absorb(&mut self, reply: Vec<Block>, _: &Source) -> ControlFlow<()> {
        self.message.content = reply;
        ControlFlow::Continue(())
    }
}

/// The model answered or failed to answer. Announced for each turn that began, before its tool calls run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TurnAfter {
    /// Id of the turn that is answered.
    pub turn_id: TurnId,
    /// Number of the turn in the run, from 1.
    pub turn: u32,
    /// Token usage of the turn; zero if the turn failed.
    pub usage: Usage,
    /// Cost of the turn in US dollars, if known.
    pub cost: Option<f64>,
    /// The model's message, unless the turn failed.
    pub message: Option<Arc<Message>>,
    /// Cause of the failure, in words.
    pub error: Option<String>,
    /// Tool calls of the run so far, by canonical name.
    pub tool_counts: Arc<BTreeMap<String, u32>>,
}
notify!(TurnAfter, "turn:after", CANCELLABLE = false);

/// Totals of the run after a turn.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct UsageUpdate {
    /// Usage of the turn that ended.
    pub turn: TurnUsage,
    /// Usage of the run so far, sub-agents included.
    pub total: Usage,
    /// Cost of the run so far in US dollars: the sum over turns whose cost is known, so a lower bound; `None`
    /// if no cost is known.
    pub cost: Option<f64>,
}
notify!(UsageUpdate, "usage", CANCELLABLE = false);

/// A side call to a model ended, answered or broken off, and the provider counted its tokens.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SideCallEnd {
    /// Plugin that made the call.
    pub source: String,
    /// Purpose of the call.
    pub purpose: String,
    /// Part of the agent that made the call, if it named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Usage of the call.
    pub usage: TurnUsage,
}
notify!(SideCallEnd, "side-call:end", CANCELLABLE = false);

/// Kind of a queued message: interrupts the run, or waits for the model to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SteerKind {
    /// Delivered between tool calls or turns.
    Steer,
    /// Delivered when the run would have ended.
    FollowUp,
}

/// Queued messages joined the conversation, or handlers of `input` dealt with them, so they leave the queue.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SteerInject {
    /// Queue that the messages waited in.
    pub kind: SteerKind,
    /// Messages that join the conversation; empty if handlers of `input` dealt with all.
    pub messages: Vec<Arc<Message>>,
    /// The queued messages as they were sent, before handlers of `input`.
    pub sent: Vec<Arc<Message>>,
}
notify!(SteerInject, "steer:inject");

/// The structured output of the run is complete.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OutputReady {
    /// Validated output.
    pub output: Value,
    /// JSON Schema that the output follows.
    pub schema: Value,
}
notify!(OutputReady, "output");

/// The results of a turn exceeded the run's byte budget. No result is cut; the model is asked to summarise.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BudgetExceeded {
    /// Number of the turn in the run, from 1.
    pub turn: u32,
    /// Id of the turn.
    pub turn_id: TurnId,
    /// Total bytes of all results of the turn.
    pub bytes: usize,
    /// Byte budget of one turn.
    pub budget: usize,
}
notify!(BudgetExceeded, "budget:exceeded");

/// Treatment of a call over its tool's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BudgetMode {
    /// The call is refused.
    Block,
    /// The call runs, and the model is asked once to finish.
    Steer,
}

/// A tool was called more often than its budget allows.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBudgetExceeded {
    /// Canonical name of the tool.
    pub tool: String,
    /// Calls of the tool in this run before this one.
    pub count: u32,
    /// Maximum number of calls that the tool's budget allows.
    pub max: u32,
    /// Turn in which the model made the call.
    pub turn_id: TurnId,
    /// Treatment of the call.
    pub mode: BudgetMode,
}
notify!(ToolBudgetExceeded, "tool-budget:exceeded");

/// The next request could cost more money or tokens than the budget has left. No request is sent before this
/// is settled.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunBudgetReached {
    /// Number of the turn in the run, from 1.
    pub turn: u32,
    /// Id of the turn that the request is for.
    pub turn_id: TurnId,
    /// Budget that was reached.
    pub budget: Budget,
    /// Amount spent so far, sub-agents included.
    pub spent: Spent,
    /// Upper bound of the next request's cost.
    pub wanted: Spent,
    /// Result of reaching the budget.
    pub outcome: BudgetOutcome,
}
notify!(RunBudgetReached, "run-budget:reached");

/// Result of reaching a budget in money or tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum BudgetOutcome {
    /// The request is sent with an output limit that the rest of the budget can pay.
    Shortened {
        /// The output limit of the request, in tokens.
        max_tokens: u32,
    },
    /// Not settled yet: a person is asked.
    Asked,
    /// A person raised the budget.
    Raised {
        /// The new budget.
        to: Budget,
    },
    /// A person removed the limit.
    Lifted,
    /// The run ends, because a person decided so or no person could be asked.
    Stopped,
}
