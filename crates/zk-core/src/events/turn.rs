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

/// The system prompt about to be sent. A handler answers with the whole new prompt, for this turn only. A
/// prompt that differs from turn to turn costs the provider's cache.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SystemTransform {
    /// The turn.
    pub turn_id: TurnId,
    /// The turn's number in the run, from 1.
    pub turn: u32,
    /// The prompt so far.
    pub system: Arc<str>,
    #[serde(skip)]
    rewritten_by: Option<Source>,
}

impl SystemTransform {
    /// The prompt of a turn, before anybody rewrote it.
    #[must_use]
    pub fn new(turn_id: TurnId, turn: u32, system: Arc<str>) -> Self {
        Self { turn_id, turn, system, rewritten_by: None }
    }

    /// Source of the handler that rewrote the prompt last.
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

/// The request about to be sent does not begin as the one before it did: what its provider has kept of that is of no use
/// from there on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PrefixBreak {
    /// The turn.
    pub turn_id: TurnId,
    /// The first part that differs.
    pub part: PrefixPart,
    /// Cause of the break, as far as it was announced.
    pub cause: PrefixCause,
    /// About how many tokens are read anew.
    pub lost_tokens: u64,
    /// About what that costs more than reading them from the cache, in US dollars, if known.
    pub cost: Option<f64>,
}
notify!(PrefixBreak, "prefix:break");

/// A part of a request, in the order in which providers keep them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum PrefixPart {
    /// The tools.
    Tools {
        /// The first that changed, came or left.
        first: String,
        /// Source that registered the tool, such as a plugin or `mcp:SERVER`, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// A section of the system prompt.
    Section {
        /// The section; `system` is the agent's own prompt, `model` the model itself.
        id: String,
        /// Source that registered the section; of `system` the one that rewrote it last.
        source: String,
    },
    /// The thinking asked for, where the messages are read anew for another.
    Thinking {
        /// The level that is asked for now.
        level: ThinkingLevel,
    },
    /// The messages.
    Messages {
        /// The first that differs, from 0. For the first request of a process it may be one before that.
        first: usize,
        /// The plugin whose handler of `context:transform` answered otherwise than before, if it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
}

/// Cause for which a request begins differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PrefixCause {
    /// Another model is asked.
    ModelSwitch,
    /// Other thinking is asked for, and the provider keeps messages for the same only.
    ThinkingChanged,
    /// Tools came, went or changed, which `tools:changed` told.
    ToolsChanged,
    /// The conversation is sent shorter, which `context:reduced` told, or longer again, which `context:compaction` did.
    Reduction,
    /// A section of the system prompt is another one in a new run, or the tools in a new process: files or settings changed.
    Reloaded,
    /// Nothing: something that should stay as it is does not.
    Unexplained,
}

/// The history had to be mended to be sendable. The stored history does not change.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct HistoryRepaired {
    /// The turn.
    pub turn_id: TurnId,
    /// Repairs that were made.
    pub repairs: Vec<Repair>,
}
notify!(HistoryRepaired, "history:repaired");

/// A turn begins: what will be sent is settled.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TurnBefore {
    /// The turn.
    pub turn_id: TurnId,
    /// Number of the turn in the run, from 1.
    pub turn: u32,
    /// The model.
    pub model: ModelRef,
    /// Number of messages that are sent.
    pub messages: usize,
    /// The reasoning asked for.
    pub thinking: ThinkingRequest,
}
notify!(TurnBefore, "turn:before");

/// The model's message is complete and not stored yet. A handler may answer with other content; the role
/// cannot change.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MessageEnd {
    /// The turn.
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

/// The model has answered, or failed to: always, once a turn has begun, and before its tool calls run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TurnAfter {
    /// The turn.
    pub turn_id: TurnId,
    /// Number of the turn in the run, from 1.
    pub turn: u32,
    /// Token usage of the turn; zero when it failed.
    pub usage: Usage,
    /// Cost of the turn in US dollars, if known.
    pub cost: Option<f64>,
    /// The message, unless it failed.
    pub message: Option<Arc<Message>>,
    /// Cause of the failure, in words.
    pub error: Option<String>,
    /// Tool calls of the run so far, by canonical name.
    pub tool_counts: Arc<BTreeMap<String, u32>>,
}
notify!(TurnAfter, "turn:after", CANCELLABLE = false);

/// Running totals after a turn.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct UsageUpdate {
    /// The turn.
    pub turn: TurnUsage,
    /// The run so far, sub-agents included.
    pub total: Usage,
    /// Cost of the run so far in US dollars: the sum of the turns whose cost is known, so the least that all
    /// of them cost; null as long as there is none.
    pub cost: Option<f64>,
}
notify!(UsageUpdate, "usage", CANCELLABLE = false);

/// A call to a model beside the conversation whose tokens the provider counted, whether it was answered or broke off.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SideCallEnd {
    /// The plugin that asked.
    pub source: String,
    /// Purpose of the call.
    pub purpose: String,
    /// Usage of the call.
    pub usage: TurnUsage,
}
notify!(SideCallEnd, "side-call:end", CANCELLABLE = false);

/// Whether a message interrupted the run or waited for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SteerKind {
    /// Delivered between tool calls or turns.
    Steer,
    /// Delivered when the run would have ended.
    FollowUp,
}

/// Queued messages join the conversation, or were dealt with by handlers of `input`: they wait no more.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SteerInject {
    /// Queue that they waited in.
    pub kind: SteerKind,
    /// The messages that join; none where handlers of `input` dealt with all.
    pub messages: Vec<Arc<Message>>,
    /// The messages as they were sent and waited, before handlers of `input`.
    pub sent: Vec<Arc<Message>>,
}
notify!(SteerInject, "steer:inject");

/// The structured output of the run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OutputReady {
    /// The output.
    pub output: Value,
    /// The schema it follows.
    pub schema: Value,
}
notify!(OutputReady, "output");

/// The results of a turn were larger than the run's byte budget. Nothing is cut; the model is asked to
/// summarise.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BudgetExceeded {
    /// The turn's number.
    pub turn: u32,
    /// The turn.
    pub turn_id: TurnId,
    /// Bytes of all results of the turn.
    pub bytes: usize,
    /// The budget.
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
    /// The call runs, and the model is asked once to come to an end.
    Steer,
}

/// A tool was called more often than its budget allows.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolBudgetExceeded {
    /// The tool.
    pub tool: String,
    /// Calls of the tool in this run before this one.
    pub count: u32,
    /// The budget.
    pub max: u32,
    /// The turn.
    pub turn_id: TurnId,
    /// Treatment of the call.
    pub mode: BudgetMode,
}
notify!(ToolBudgetExceeded, "tool-budget:exceeded");

/// The next request could cost more than is left of a budget in money or tokens. No request is sent before this is
/// settled.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunBudgetReached {
    /// The turn's number.
    pub turn: u32,
    /// The turn.
    pub turn_id: TurnId,
    /// The budget.
    pub budget: Budget,
    /// Amount spent of the budget, sub-agents included.
    pub spent: Spent,
    /// The most that the request could cost.
    pub wanted: Spent,
    /// Outcome of reaching the budget.
    pub outcome: BudgetOutcome,
}
notify!(RunBudgetReached, "run-budget:reached");

/// Outcome of reaching a budget in money or tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum BudgetOutcome {
    /// The answer may be so long only that it can be paid.
    Shortened {
        /// The output limit of the request, in tokens.
        max_tokens: u32,
    },
    /// Nothing yet: a person is asked.
    Asked,
    /// A person raised the budget.
    Raised {
        /// The new one.
        to: Budget,
    },
    /// A person took the limit away.
    Lifted,
    /// The run ends, because a person said so or nobody was there to ask.
    Stopped,
}
