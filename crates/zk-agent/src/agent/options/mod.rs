#[cfg(feature = "settings")]
pub mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::{Map, Value};
use zk_core::events::BudgetMode;
use zk_core::kernel::Plugin;
use zk_core::model::{Block, Budget, CallKind, Effect, Effects, Model, ThinkingRequest};
use zk_core::service::{CallPlace, Tool, foreign_server_names};

use crate::QueueMode;

/// Behaviour of an agent. Nothing is set by default: what a run leaves open the agent decides, then the
/// defaults named here.
#[derive(Clone, Default)]
pub struct Behavior {
    /// Turns after which a run stops with an error; without limit by default.
    pub max_turns: Option<u32>,
    /// Output limit of one response in tokens; by default two fifths of the model's window, at most 65,536, and 16,384 where
    /// the window is not known.
    pub max_tokens: Option<u32>,
    /// Spending limit: of an agent for all its runs and their sub-agents together, in its present session and
    /// with what the turns that are stored of that session have cost; of a run for itself and its sub-agents
    /// beside that. No limit by default. Before each request the most it could cost is held; when that does
    /// not fit, a person is asked, and where nobody is there the run ends with
    /// [`AgentError::Budget`](zk_core::model::AgentError::Budget).
    pub budget: Option<Budget>,
    /// Whether to mark stable prefixes for the provider's cache; on by default.
    pub cache: Option<bool>,
    /// Tool calls of one batch that may run at once; 10 by default, 1 is strictly one after the other.
    pub max_concurrent_tools: Option<usize>,
    /// Size of one turn's tool results above which the model is asked to summarise; off by default.
    pub tool_output_budget: Option<OutputBudget>,
    /// Calls of a tool in one run, by canonical name.
    pub tool_budgets: BTreeMap<String, ToolBudget>,
    /// Tools whose repeated calls get the earlier result, by canonical name.
    pub dedup_tools: BTreeMap<String, DedupKey>,
    /// The only tools that may be called, by canonical name; all by default.
    pub allowed_tools: Option<Vec<String>>,
    /// Decay of an exact thinking budget over a run; off by default.
    pub thinking_decay: Option<ThinkingDecay>,
    /// The JSON Schema the final answer has to follow; free text by default. The provider holds the model to it
    /// where it can, otherwise the answer is given by a tool. Either way it is checked like the arguments of a
    /// tool, coerced, and asked for again a few times.
    pub schema: Option<Value>,
    /// Number of queued messages that are delivered at once; one by default.
    pub queue_mode: Option<QueueMode>,
    /// Number of queued follow-ups that are delivered at once; as `queue_mode` says by default.
    pub follow_up_mode: Option<QueueMode>,
}

impl Behavior {
    /// Takes from `base` what this one leaves open.
    #[must_use]
    pub fn or(self, base: &Self) -> Self {
        fn filled<V: Clone>(own: BTreeMap<String, V>, base: &BTreeMap<String, V>) -> BTreeMap<String, V> {
            if own.is_empty() { base.clone() } else { own }
        }
        Self {
            max_turns: self.max_turns.or(base.max_turns),
            max_tokens: self.max_tokens.or(base.max_tokens),
            budget: self.budget.or(base.budget),
            cache: self.cache.or(base.cache),
            max_concurrent_tools: self.max_concurrent_tools.or(base.max_concurrent_tools),
            tool_output_budget: self.tool_output_budget.or(base.tool_output_budget),
            tool_budgets: filled(self.tool_budgets, &base.tool_budgets),
            dedup_tools: filled(self.dedup_tools, &base.dedup_tools),
            allowed_tools: self.allowed_tools.or_else(|| base.allowed_tools.clone()),
            thinking_decay: self.thinking_decay.or_else(|| base.thinking_decay.clone()),
            schema: self.schema.or_else(|| base.schema.clone()),
            queue_mode: self.queue_mode.or(base.queue_mode),
            follow_up_mode: self.follow_up_mode.or(base.follow_up_mode),
        }
    }
}

impl fmt::Debug for Behavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Behavior")
            .field("max_turns", &self.max_turns)
            .field("max_tokens", &self.max_tokens)
            .field("budget", &self.budget)
            .field("cache", &self.cache)
            .field("max_concurrent_tools", &self.max_concurrent_tools)
            .field("tool_output_budget", &self.tool_output_budget)
            .field("tool_budgets", &self.tool_budgets)
            .field("dedup_tools", &self.dedup_tools.keys())
            .field("allowed_tools", &self.allowed_tools)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// Makes the key of a call: calls with equal keys have equal results. No key, or an empty one: the call is
/// never replayed. Only for tools without side effects whose result depends on nothing else.
pub type DedupKey = Arc<dyn Fn(&Value) -> Option<String> + Send + Sync>;

/// Size limit of the results of one turn together. Nothing is cut: beyond it the model is asked to write down
/// what matters before it calls more tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputBudget {
    /// A number of bytes.
    Bytes(usize),
    /// A part of what is left of the model's window; no limit where that is not known.
    OfWindow {
        /// Per cent of what is left.
        percent: u32,
    },
}

/// Limit on the calls of a tool in one run. Replayed and substituted calls count.
#[derive(Clone, Debug)]
pub struct ToolBudget {
    /// Calls.
    pub max: u32,
    /// Treatment of a call beyond them.
    pub on_exceed: OnExceed,
}

/// Treatment of a call over its tool's budget.
#[derive(Clone)]
pub enum OnExceed {
    /// Refuses the call.
    Block,
    /// Runs the call, and once in the run asks the model to come to an end.
    Steer,
    /// A function decides, and gives the message. It is given the tool and its calls so far.
    With(BudgetRule),
}

/// Decides about a call over its tool's budget, given the tool and its calls so far.
pub type BudgetRule = Arc<dyn Fn(&str, u32) -> Verdict + Send + Sync>;

impl fmt::Debug for OnExceed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "Block",
            Self::Steer => "Steer",
            Self::With(_) => "With(..)",
        })
    }
}

/// Decision of a budget about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Refuse or steer.
    pub mode: BudgetMode,
    /// Message for the model.
    pub message: String,
}

/// Decay of an exact thinking budget over the turns of a run. The result stays between 0 and the budget.
#[derive(Clone)]
pub enum ThinkingDecay {
    /// Multiplied by `factor` for every turn after `after_turn`, never below `floor` tokens.
    Geometric {
        /// Turns with the full budget.
        after_turn: u32,
        /// Factor, between 0 and 1.
        factor: f64,
        /// Tokens.
        floor: u32,
    },
    /// A function of the turn (from 1) and the budget.
    With(Arc<dyn Fn(u32, u32) -> f64 + Send + Sync>),
}

impl fmt::Debug for ThinkingDecay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Geometric { after_turn, factor, floor } => f
                .debug_struct("Geometric")
                .field("after_turn", after_turn)
                .field("factor", factor)
                .field("floor", floor)
                .finish(),
            Self::With(_) => f.write_str("With(..)"),
        }
    }
}

/// Selection of the registered tools that an agent offers its model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolSet {
    /// All.
    #[default]
    All,
    /// No tools: just a conversation.
    None,
    /// Tools with these canonical names. A name that ends in `*` stands for all that begin so.
    Only(Vec<String>),
    /// The others of a set.
    Except(Box<ToolSet>, Vec<String>),
    /// Tools of a set that change nothing, whatever their arguments are: they read, or get pages of the
    /// network. Judged anew whenever the registered tools change.
    Reading(Box<ToolSet>),
}

impl ToolSet {
    /// Whether a tool of this name is in the set, as far as its name tells: what it does is not looked at.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let is_one_of = |names: &[String]| {
            names.iter().any(|wanted| match wanted.strip_suffix('*') {
                Some(begin) => {
                    name.starts_with(begin) || foreign_server_names(name).any(|name| name.starts_with(begin))
                }
                None => wanted == name || foreign_server_names(name).any(|name| *wanted == name),
            })
        };
        match self {
            Self::All => true,
            Self::None => false,
            Self::Only(names) => is_one_of(names),
            Self::Except(all, names) => all.has(name) && !is_one_of(names),
            Self::Reading(all) => all.has(name),
        }
    }

    /// Whether a tool is in the set.
    pub(crate) fn offers(&self, name: &str, tool: &dyn Tool, place: &CallPlace) -> bool {
        self.has(name) && (!self.only_reads() || changes_nothing(tool, place))
    }

    fn only_reads(&self) -> bool {
        match self {
            Self::All | Self::None | Self::Only(_) => false,
            Self::Except(all, _) => all.only_reads(),
            Self::Reading(_) => true,
        }
    }

    /// The names that were asked for one by one.
    pub(crate) fn wanted(&self) -> Vec<&String> {
        match self {
            Self::All | Self::None => Vec::new(),
            Self::Only(names) => names.iter().filter(|name| !name.ends_with('*')).collect(),
            Self::Except(all, _) => all.wanted().into_iter().filter(|name| self.has(name)).collect(),
            // Tools that do more are left out on purpose.
            Self::Reading(_) => Vec::new(),
        }
    }
}

/// Whether no call of a tool changes anything.
fn changes_nothing(tool: &dyn Tool, place: &CallPlace) -> bool {
    // Effects told of no arguments hold for all; a tool that cannot tell them is not offered.
    let judge = || (tool.effects(&Value::Object(Map::new()), place), tool.kind());
    let Ok((effects, kind)) = catch_unwind(AssertUnwindSafe(judge)) else { return false };
    let is_fetched = |effect: &Effect| matches!(effect, Effect::Reads { .. } | Effect::Network { .. });
    let only_fetches = || match &effects {
        Effects::Known { list } => list.iter().all(is_fetched),
        Effects::Unknown => false,
    };
    // Calls that a call starts may do more than itself.
    !tool.starts_calls() && (effects.is_read_only() || (kind == Some(CallKind::Fetch) && only_fetches()))
}

/// Prompt of one run, and how the run differs from the agent.
#[derive(Clone, Default)]
pub struct RunOptions {
    pub(crate) prompt: Option<Vec<Block>>,
    pub(crate) model: Option<Model>,
    pub(crate) system: Option<String>,
    pub(crate) thinking: Option<ThinkingRequest>,
    pub(crate) behavior: Behavior,
    pub(crate) tools: Option<ToolSet>,
    pub(crate) plugins: Vec<Arc<dyn Plugin>>,
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("prompt", &self.prompt)
            .field("model", &self.model)
            .field("system", &self.system)
            .field("thinking", &self.thinking)
            .field("behavior", &self.behavior)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

impl RunOptions {
    /// A run that goes on with the conversation as it is, without a prompt.
    #[must_use]
    pub fn resume() -> Self {
        Self::default()
    }

    /// A run asked these blocks: text, images, documents.
    #[must_use]
    pub fn prompt(blocks: Vec<Block>) -> Self {
        Self { prompt: Some(blocks), ..Self::default() }
    }

    /// Another model for this run.
    #[must_use]
    pub fn model(mut self, model: Model) -> Self {
        self.model = Some(model);
        self
    }

    /// Another system prompt for this run.
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Other reasoning for this run.
    #[must_use]
    pub fn thinking(mut self, thinking: ThinkingRequest) -> Self {
        self.thinking = Some(thinking);
        self
    }

    /// Behaviour of this run; what it leaves open stays as the agent has it.
    #[must_use]
    pub fn behavior(mut self, behavior: Behavior) -> Self {
        self.behavior = behavior;
        self
    }

    /// Other tools for this run.
    #[must_use]
    pub fn tools(mut self, tools: ToolSet) -> Self {
        self.tools = Some(tools);
        self
    }

    /// A plugin for this run, removed at its end.
    #[must_use]
    pub fn plugin(mut self, plugin: Arc<dyn Plugin>) -> Self {
        self.plugins.push(plugin);
        self
    }
}

impl From<&str> for RunOptions {
    fn from(prompt: &str) -> Self {
        Self::prompt(vec![Block::text(prompt)])
    }
}

impl From<String> for RunOptions {
    fn from(prompt: String) -> Self {
        Self::prompt(vec![Block::text(prompt)])
    }
}
