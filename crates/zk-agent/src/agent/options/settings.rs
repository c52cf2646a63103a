//! Sections of the settings that describe runs: at the top level, in `[tools]` and in `[agents]`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zk_core::events::ToolBegin;
use zk_core::kernel::{Bus, Cx, Reach};
use zk_core::model::Budget;
use zk_core::service::{
    COMPRESS_PART, EXPLORE_PART, SUBGOAL_PART, SUMMARY_PART, SUPERVISOR_PART, TITLE_PART,
};

use super::{Behavior, DedupKey, OnExceed, OutputBudget, ThinkingDecay, ToolBudget, ToolSet};
use crate::run::QueueMode;
use crate::spawn::{Delegation, SpawnOptions};

/// Limits of a run and of the conversation, at the top level.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunSettings {
    /// Turns after which a run ends.
    #[schemars(range(min = 1))]
    pub max_turns: Option<u32>,
    /// Tokens of one answer.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// US dollars of the conversation, its sub-agents included.
    #[schemars(extend(
        "exclusiveMinimum" = 0,
        "x-by-projects" = false,
        "x-expected" = "an amount of US dollars above 0"
    ))]
    pub max_budget_usd: Option<f64>,
    /// Tokens of the conversation, its sub-agents included.
    #[schemars(range(min = 1), extend("x-by-projects" = false))]
    pub max_tokens_total: Option<u32>,
    /// Tokens of reasoning for models that are given a number.
    #[schemars(range(min = 1))]
    pub thinking_budget: Option<u32>,
    /// Messages that join a run at once, of those that were sent to steer it.
    pub queue_mode: Option<QueueMode>,
    /// Messages that join a conversation at once, of those that wait for the end of a run.
    pub follow_up_mode: Option<QueueMode>,
    /// Decay of the budget of reasoning over the turns of a run.
    pub thinking_decay: DecaySettings,
}

/// Decay of the budget of reasoning over the turns of a run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DecaySettings {
    /// Turns with the full budget. Without it there is no decay.
    #[schemars(range(min = 1))]
    pub after_turn: Option<u32>,
    /// Part of the budget that each turn leaves to the next one.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub factor: f64,
    /// Tokens that are always left.
    #[schemars(range(min = 1))]
    pub floor: u32,
}

impl Default for DecaySettings {
    fn default() -> Self {
        Self { after_turn: None, factor: 0.5, floor: 1_024 }
    }
}

impl DecaySettings {
    fn decay(&self) -> Option<ThinkingDecay> {
        let (factor, floor) = (self.factor, self.floor);
        self.after_turn.map(|after_turn| ThinkingDecay::Geometric { after_turn, factor, floor })
    }
}

/// Treatment of the model's calls, in `[tools]`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CallSettings {
    /// Tools that the model is offered; all of them without this.
    #[schemars(extend("x-expected" = "a list of names, such as [\"shell\"]"))]
    pub allowed: Vec<String>,
    /// Tools that the model is not offered.
    #[schemars(extend("x-expected" = "a list of names, such as [\"shell\"]"))]
    pub disallowed: Vec<String>,
    /// Whether the model is offered only tools that read.
    pub read_only: bool,
    /// Tools whose repeated call gets the result of the last one, unless something was changed in between.
    #[schemars(extend("x-expected" = "a list of names, such as [\"shell\"]"))]
    pub dedup: Vec<String>,
    /// Calls that run at once.
    #[schemars(range(min = 1))]
    pub max_concurrent: Option<u32>,
    /// Calls of a tool in one run, by its name.
    #[schemars(with = "BTreeMap<String, NonZeroU32>")]
    pub budgets: BTreeMap<String, u32>,
    /// Treatment of a call over its tool's budget.
    pub over_budget: OverBudget,
    /// Bytes of the results of one turn.
    #[schemars(range(min = 1))]
    pub output_budget: Option<u32>,
    /// Results of one turn, in per cent of the rest of the model's window.
    #[schemars(range(min = 1))]
    pub output_budget_percent: Option<u32>,
}

impl CallSettings {
    /// Returns the keys of tools whose repeated calls get the last result: each changes with every call on `bus` or
    /// below it that is not read-only.
    #[must_use]
    pub fn dedup_keys(&self, bus: &Bus) -> BTreeMap<String, DedupKey> {
        if self.dedup.is_empty() {
            return BTreeMap::new();
        }
        let changes = Arc::new(AtomicU64::new(0));
        let count = changes.clone();
        bus.scope("dedup").on_sync_at(Reach::Descendants, move |begin: &ToolBegin, _: &Cx| {
            if !begin.read_only {
                count.fetch_add(1, Ordering::AcqRel);
            }
        });
        let key: DedupKey = Arc::new(move |args| Some(format!("{} {args}", changes.load(Ordering::Acquire))));
        self.dedup.iter().map(|name| (name.clone(), key.clone())).collect()
    }

    /// Returns the set of tools offered to the model; `resolve` turns written names into names of tools.
    #[must_use]
    pub fn tool_set(&self, resolve: impl Fn(&[String]) -> Vec<String>) -> ToolSet {
        let (allowed, disallowed) = (resolve(&self.allowed), resolve(&self.disallowed));
        let set = if allowed.is_empty() { ToolSet::All } else { ToolSet::Only(allowed) };
        let set = if self.read_only { ToolSet::Reading(Box::new(set)) } else { set };
        if disallowed.is_empty() { set } else { ToolSet::Except(Box::new(set), disallowed) }
    }
}

/// Treatment of a call over its tool's budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverBudget {
    /// The call is refused.
    #[default]
    Block,
    /// The call runs, and the model is asked to finish.
    Steer,
}

/// Limits of sub-agents, in `[agents]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SpawnSettings {
    /// Sub-agents that run at once.
    #[schemars(range(min = 1))]
    pub max_concurrent: u32,
    /// Levels that the tree may grow below the conversation.
    #[schemars(range(min = 1))]
    pub max_depth: u32,
    /// Sub-agents of one session.
    #[schemars(range(min = 1))]
    pub max_total: u32,
    /// Turns after which a sub-agent is stopped.
    #[schemars(range(min = 1))]
    pub max_turns: Option<u32>,
    /// Tokens of output after which a sub-agent is stopped.
    #[schemars(range(min = 1))]
    pub max_output_tokens: Option<u32>,
    /// Whether sub-agents may work in the background, beside the conversation.
    pub background: bool,
    /// Readiness of the model to delegate: never, when it is asked to, or whenever that helps.
    pub delegation: Delegation,
    /// Whether a file that the conversation has read counts as read by a sub-agent that edits it; to replace all of it
    /// takes an own read.
    pub share_read_state: bool,
}

impl Default for SpawnSettings {
    fn default() -> Self {
        let usual = SpawnOptions::default();
        Self {
            // More than the default of embedded agents, since a person watches them.
            max_concurrent: 5,
            max_depth: usual.max_depth,
            max_total: usual.max_total,
            max_turns: usual.max_turns,
            max_output_tokens: None,
            background: true,
            delegation: Delegation::default(),
            share_read_state: false,
        }
    }
}

impl SpawnSettings {
    /// Returns the options of the tool `spawn`.
    #[must_use]
    pub fn options(&self) -> SpawnOptions {
        SpawnOptions {
            max_concurrent: self.max_concurrent as usize,
            max_depth: self.max_depth,
            max_total: self.max_total,
            max_turns: self.max_turns,
            max_output_tokens: self.max_output_tokens.map(u64::from),
            background: self.background,
            delegation: Some(self.delegation),
            share_read_state: self.share_read_state,
            ..SpawnOptions::default()
        }
    }
}

/// Models for parts of the agent, in `[parts]`: `PROVIDER/ID`, or a name as in `model`. Without one, a part asks the
/// conversation's model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PartSettings {
    /// Model that summarises conversations and branches.
    #[schemars(extend("x-expected" = MODEL_EXAMPLE))]
    pub summary: Option<String>,
    /// Model that shortens large results of tools; without it, `tools.compress` says whether a model does.
    #[schemars(extend("x-expected" = MODEL_EXAMPLE))]
    pub compress: Option<String>,
    /// Model that titles sessions; without it, a title is the beginning of the first prompt.
    #[schemars(extend("x-expected" = MODEL_EXAMPLE))]
    pub title: Option<String>,
    /// Model that judges the progress of an autonomous goal.
    #[schemars(extend("x-expected" = MODEL_EXAMPLE))]
    pub supervisor: Option<String>,
    /// Model that names the steps of a task for compaction.
    #[schemars(extend("x-expected" = MODEL_EXAMPLE))]
    pub subgoal: Option<String>,
    /// Model of sub-agents without a name.
    #[schemars(extend("x-expected" = MODEL_EXAMPLE))]
    pub explore: Option<String>,
    /// Model of the sub-agent with this name.
    #[serde(flatten)]
    pub agents: BTreeMap<String, String>,
}

/// Description of a model's name, to follow "must be".
const MODEL_EXAMPLE: &str = "the name of a model, such as `anthropic/claude-haiku-4-5`";

impl PartSettings {
    /// Iterates over the parts with a model of their own, and its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let Self { summary, compress, title, supervisor, subgoal, explore, agents } = self;
        let known = [
            (SUMMARY_PART, summary),
            (COMPRESS_PART, compress),
            (TITLE_PART, title),
            (SUPERVISOR_PART, supervisor),
            (SUBGOAL_PART, subgoal),
            (EXPLORE_PART, explore),
        ];
        let known = known.into_iter().filter_map(|(part, model)| Some((part, model.as_deref()?)));
        known.chain(agents.iter().map(|(agent, model)| (&**agent, &**model)))
    }
}

impl Behavior {
    /// Converts the settings to the agent's behaviour.
    #[must_use]
    pub fn of_settings(run: &RunSettings, calls: &CallSettings) -> Self {
        let budget = Budget { usd: run.max_budget_usd, tokens: run.max_tokens_total.map(u64::from) };
        let share =
            calls.output_budget_percent.map(|percent| OutputBudget::OfWindow { percent: percent.min(100) });
        Self {
            max_turns: run.max_turns,
            max_tokens: run.max_tokens,
            budget: (!budget.is_unlimited()).then_some(budget),
            tool_budgets: calls.tool_budgets(),
            tool_output_budget: calls
                .output_budget
                .map(|bytes| OutputBudget::Bytes(bytes as usize))
                .or(share),
            thinking_decay: run.thinking_decay.decay(),
            queue_mode: run.queue_mode,
            follow_up_mode: run.follow_up_mode,
            max_concurrent_tools: calls.max_concurrent.map(|most| most as usize),
            ..Self::default()
        }
    }
}

impl CallSettings {
    fn tool_budgets(&self) -> BTreeMap<String, ToolBudget> {
        let budget = |max| {
            let on_exceed = match self.over_budget {
                OverBudget::Steer => OnExceed::Steer,
                OverBudget::Block => OnExceed::Block,
            };
            ToolBudget { max, on_exceed }
        };
        self.budgets.iter().map(|(tool, max)| (tool.clone(), budget(*max))).collect()
    }
}
