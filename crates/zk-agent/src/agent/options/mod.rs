#[cfg(feature = "settings")]
pub mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::{Map, Value};
use zk_core::events::BudgetMode;
use zk_core::kernel::Plugin;
use zk_core::model::{Block, Budget, CallKind, Effect, Effects, Model, RunId, ThinkingRequest};
use zk_core::service::{CallPlace, Tool, foreign_server_names};

use crate::QueueMode;

/// Behaviour of an agent or a run. All fields are unset by default: a run falls back to its agent's values,
/// then to the defaults named here.
#[derive(Clone, Default)]
pub struct Behavior {
    /// Maximum number of turns before a run stops with an error; no limit by default.
    pub max_turns: Option<u32>,
    /// Output limit of one response in tokens; by default two fifths of the model's window, at most 65,536,
    /// and 16,384 if the window is not known.
    pub max_tokens: Option<u32>,
    /// Spending limit; none by default. For an agent it covers all runs and sub-agents in its current
    /// session, including the stored turns of that session; for a run it covers the run and its sub-agents,
    /// in addition to the agent's. Before each request, its highest possible cost is reserved. If that does
    /// not fit, a person is asked; if none is present, the run ends with
    /// [`AgentError::Budget`](zk_core::model::AgentError::Budget).
    pub budget: Option<Budget>,
    /// Whether to mark stable prefixes for the provider's prompt cache; on by default.
    pub cache: Option<bool>,
    /// Maximum number of tool calls of one batch that run concurrently; 10 by default, 1 runs them one after
    /// the other.
    pub max_concurrent_tools: Option<usize>,
    /// Size of one turn's tool results above which the model is asked to summarise; no limit by default.
    pub tool_output_budget: Option<OutputBudget>,
    /// Limits on calls of a tool in one run, by canonical name.
    pub tool_budgets: BTreeMap<String, ToolBudget>,
    /// Tools whose repeated calls get the cached result, by canonical name.
    pub dedup_tools: BTreeMap<String, DedupKey>,
    /// Tools that may be called, by canonical name; all by default.
    pub allowed_tools: Option<Vec<String>>,
    /// Decay of an exact thinking budget over a run; none by default.
    pub thinking_decay: Option<ThinkingDecay>,
    /// JSON Schema of the final answer; free text by default. The provider enforces it if it can; otherwise
    /// the answer is given as the arguments of a tool. In both cases the answer is validated and coerced like
    /// tool arguments, and requested again a few times if invalid.
    pub schema: Option<Value>,
    /// Number of queued steering messages delivered at once; one by default.
    pub queue_mode: Option<QueueMode>,
    /// Number of queued follow-ups delivered at once; as `queue_mode` by default.
    pub follow_up_mode: Option<QueueMode>,
}

impl Behavior {
    /// Fills fields that are not set with the values of `base`.
    #[must_use]
    pub fn or(self, base: &Self) -> Self {
        fn fill_missing<V: Clone>(
            own: BTreeMap<String, V>,
            base: &BTreeMap<String, V>,
        ) -> BTreeMap<String, V> {
            if own.is_empty() { base.clone() } else { own }
        }
        Self {
            max_turns: self.max_turns.or(base.max_turns),
            max_tokens: self.max_tokens.or(base.max_tokens),
            budget: self.budget.or(base.budget),
            cache: self.cache.or(base.cache),
            max_concurrent_tools: self.max_concurrent_tools.or(base.max_concurrent_tools),
            tool_output_budget: self.tool_output_budget.or(base.tool_output_budget),
            tool_budgets: fill_missing(self.tool_budgets, &base.tool_budgets),
            dedup_tools: fill_missing(self.dedup_tools, &base.dedup_tools),
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

/// Function that computes the cache key of a call: calls with equal keys have equal results. Without a key,
/// or with an empty one, the call always runs. Only for tools without side effects whose result depends on
/// the arguments alone.
pub type DedupKey = Arc<dyn Fn(&Value) -> Option<String> + Send + Sync>;

/// Size limit of all results of one turn. No result is cut: above the limit the model is asked to write down
/// the important facts before it calls more tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputBudget {
    /// Limit in bytes.
    Bytes(usize),
    /// Share of the rest of the model's window; no limit if the window is not known.
    OfWindow {
        /// Share in per cent.
        percent: u32,
    },
}

/// Limit on the calls of a tool in one run. Replayed and substituted calls count too.
#[derive(Clone, Debug)]
pub struct ToolBudget {
    /// Maximum number of calls.
    pub max: u32,
    /// Treatment of further calls.
    pub on_exceed: OnExceed,
}

/// Treatment of a call over its tool's budget.
#[derive(Clone)]
pub enum OnExceed {
    /// Refuses the call.
    Block,
    /// Runs the call, and asks the model once per run to finish.
    Steer,
    /// Lets a function decide and give the message.
    With(BudgetRule),
}

/// Function that decides about a call over its tool's budget, from the tool's name and its number of calls so
/// far.
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
    /// Whether the call is refused, or the model is asked to finish.
    pub mode: BudgetMode,
    /// Message for the model.
    pub message: String,
}

/// Decay of an exact thinking budget over the turns of a run. The result is clamped to between 0 and the
/// budget.
#[derive(Clone)]
pub enum ThinkingDecay {
    /// Multiplies the budget by `factor` for every turn after `after_turn`, but not below `floor` tokens.
    Geometric {
        /// Number of turns with the full budget.
        after_turn: u32,
        /// Factor per turn, between 0 and 1.
        factor: f64,
        /// Lower limit in tokens.
        floor: u32,
    },
    /// Computes the budget from the turn's number (from 1) and the full budget.
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
    /// All registered tools.
    #[default]
    All,
    /// No tools.
    None,
    /// Tools with these canonical names. A trailing `*` matches any rest of the name.
    Only(Vec<String>),
    /// All tools of a set except the named ones.
    Except(Box<ToolSet>, Vec<String>),
    /// Tools of a set that have no side effects whatever their arguments: tools that read files or fetch web
    /// pages. Evaluated again when the registered tools change.
    Reading(Box<ToolSet>),
}

impl ToolSet {
    /// Whether the set may contain a tool of this name, judged by the name alone, not by its effects.
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

    /// Whether the set contains a tool.
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

    /// Returns the names that the set lists explicitly.
    pub(crate) fn listed_names(&self) -> Vec<&String> {
        match self {
            Self::All | Self::None => Vec::new(),
            Self::Only(names) => names.iter().filter(|name| !name.ends_with('*')).collect(),
            Self::Except(all, _) => all.listed_names().into_iter().filter(|name| self.has(name)).collect(),
            // Listed tools with side effects are left out on purpose, and therefore not missing.
            Self::Reading(_) => Vec::new(),
        }
    }
}

/// Whether no call of the tool has side effects.
fn changes_nothing(tool: &dyn Tool, place: &CallPlace) -> bool {
    // Effects declared for empty arguments hold for all calls; a tool that cannot declare them is not
    // offered.
    let judge = || (tool.effects(&Value::Object(Map::new()), place), tool.kind());
    let Ok((effects, kind)) = catch_unwind(AssertUnwindSafe(judge)) else { return false };
    let is_fetched = |effect: &Effect| matches!(effect, Effect::Reads { .. } | Effect::Network { .. });
    let only_fetches = || match &effects {
        Effects::Known { list } => list.iter().all(is_fetched),
        Effects::Unknown => false,
    };
    // A call may start other calls with more effects than its own.
    !tool.starts_calls() && (effects.is_read_only() || (kind == Some(CallKind::Fetch) && only_fetches()))
}

/// Options of one run: its prompt, and its differences from the agent's options.
#[derive(Clone, Default)]
pub struct RunOptions {
    pub(crate) prompt: Option<Vec<Block>>,
    pub(crate) model: Option<Model>,
    pub(crate) system: Option<String>,
    pub(crate) thinking: Option<ThinkingRequest>,
    pub(crate) behavior: Behavior,
    pub(crate) tools: Option<ToolSet>,
    pub(crate) plugins: Vec<Arc<dyn Plugin>>,
    pub(crate) leg: Option<RunId>,
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
    /// Creates the options of a run that continues the conversation without a prompt.
    #[must_use]
    pub fn resume() -> Self {
        Self::default()
    }

    /// Creates the options of a run with these blocks as the prompt: text, images, documents.
    #[must_use]
    pub fn prompt(blocks: Vec<Block>) -> Self {
        Self { prompt: Some(blocks), ..Self::default() }
    }

    /// Sets the model for this run.
    #[must_use]
    pub fn model(mut self, model: Model) -> Self {
        self.model = Some(model);
        self
    }

    /// Sets the system prompt for this run.
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Sets the reasoning request for this run.
    #[must_use]
    pub fn thinking(mut self, thinking: ThinkingRequest) -> Self {
        self.thinking = Some(thinking);
        self
    }

    /// Sets the behaviour of this run; unset fields fall back to the agent's.
    #[must_use]
    pub fn behavior(mut self, behavior: Behavior) -> Self {
        self.behavior = behavior;
        self
    }

    /// Asks for a final answer of the type `T`, which [`RunOutcome::answer`](crate::RunOutcome::answer) returns.
    #[cfg(feature = "typed")]
    #[must_use]
    pub fn answering<T: schemars::JsonSchema>(mut self) -> Self {
        self.behavior.schema = Some(zk_core::model::schema_of::<T>());
        self
    }

    /// Sets the tools for this run.
    #[must_use]
    pub fn tools(mut self, tools: ToolSet) -> Self {
        self.tools = Some(tools);
        self
    }

    /// Makes the run a leg of `run`, which outlives its worker: what an earlier leg left open is settled first, mail to the
    /// session is read before each turn, and a call that waits for a person ends the leg with its turn open
    /// ([`AgentError::Parked`](zk_core::model::AgentError::Parked) with a question), as does
    /// [`RunHandle::hand_over`](crate::RunHandle::hand_over).
    /// `zk_session::resume_leg` opens the conversation of a leg.
    #[must_use]
    pub fn drive_leg(mut self, run: RunId) -> Self {
        self.leg = Some(run);
        self
    }

    /// Adds a plugin for this run, which is removed at its end.
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
