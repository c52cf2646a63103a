use std::collections::BTreeMap;
use std::ops::AddAssign;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::models::round_to_billionth;
use super::{ModelRef, TurnId};

/// Token counts of one response, normalised: the four main counts do not overlap, whatever the provider's
/// definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct Usage {
    /// Input tokens neither read from nor written to a cache.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache.
    pub cache_write: u64,
    /// Part of `cache_write` that is cached for an hour.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_1h: u64,
    /// Part of `output` that was reasoning.
    pub reasoning: u64,
    /// Cost in billionths of a US dollar, where the model's prices do not determine it: the provider states
    /// it, or several responses with different prices were combined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billed: Option<u64>,
    /// Tokens of other models whose prices are not known. If not zero, the cost is unknown, unless `billed`
    /// states it.
    #[serde(skip_serializing_if = "is_zero")]
    pub unpriced: u64,
    /// Input tokens of the last response, if the counts combine several responses; `None` for one response or
    /// a sum of turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_read: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Returns all input tokens, cached or not, on which the input price depends.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Returns the tokens of the context window that the response filled, without its output: all input
    /// tokens, but only those of the last response if the provider combined several.
    #[must_use]
    pub fn context(&self) -> u64 {
        self.last_read.unwrap_or_else(|| self.read())
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.billed = match (self.billed, other.billed) {
            (None, None) => None,
            (one, more) => Some(one.unwrap_or_default().saturating_add(more.unwrap_or_default())),
        };
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
        self.last_read = None;
    }
}

/// Usage of one turn or side call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TurnUsage {
    /// Turn that used the tokens.
    pub turn_id: TurnId,
    /// Model that answered.
    pub model: ModelRef,
    /// Tokens of the turn.
    pub usage: Usage,
    /// Cost of the turn in US dollars, if known.
    pub cost: Option<f64>,
}

/// Statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Stats {
    /// Tokens of the run, of its side calls and of all its sub-agents.
    pub usage: Usage,
    /// Cost of `usage` in US dollars: the sum over turns whose cost is known, so a lower bound; `None` if no
    /// cost is known.
    #[serde(default)]
    pub cost: Option<f64>,
    /// Number of turns of this run, without sub-agents.
    pub turns: u32,
    /// Usage of each turn of this run, without sub-agents.
    pub turn_usage: Vec<TurnUsage>,
    /// Usage of the side calls to models, by purpose. They are not turns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub side_calls: BTreeMap<String, Vec<TurnUsage>>,
    /// Number of tool calls that were not blocked, by canonical name.
    pub tool_calls: BTreeMap<String, u32>,
    /// Milliseconds from the start of the run to the first text, thinking or tool call.
    pub first_token_ms: Option<u64>,
    /// Duration of the run in milliseconds.
    pub duration_ms: u64,
    /// The structured output, if the run was asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Statistics of the sub-agents, in the order they finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Stats>,
}

/// Share of one model in the statistics of a tree of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelStats {
    /// Number of turns that the model answered.
    pub turns: u32,
    /// Tokens of the model's share.
    pub usage: Usage,
    /// Cost of the model's share in US dollars, a lower bound as in [`Stats::cost`].
    pub cost: Option<f64>,
}

/// Sum over answers of models: usage and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    /// Number of answers.
    pub answers: u64,
    /// Tokens.
    pub usage: Usage,
    /// Cost in US dollars, as far as prices are known.
    pub cost: Option<f64>,
    /// Number of answers without a known price.
    pub unpriced: u64,
}

impl Spending {
    /// Adds an answer.
    pub fn add(&mut self, turn: &TurnUsage) {
        self.answers += 1;
        self.usage += turn.usage;
        self.cost = add_costs(self.cost, turn.cost);
        self.unpriced += u64::from(turn.cost.is_none());
    }

    /// Adds another sum.
    pub fn merge(&mut self, more: &Self) {
        self.answers += more.answers;
        self.usage += more.usage;
        self.cost = add_costs(self.cost, more.cost);
        self.unpriced += more.unpriced;
    }

    /// Sums up by model.
    pub fn by_model<'a>(turns: impl IntoIterator<Item = &'a TurnUsage>) -> BTreeMap<ModelRef, Self> {
        let mut models = BTreeMap::<ModelRef, Self>::new();
        turns.into_iter().for_each(|turn| models.entry(turn.model.clone()).or_default().add(turn));
        models
    }
}

/// Adds two costs, each of which may be unknown.
fn add_costs(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(round_to_billionth(one + other)),
        (one, other) => one.or(other),
    }
}

impl Stats {
    /// Adds a turn to the statistics.
    pub fn add_turn(&mut self, turn: TurnUsage) {
        self.usage += turn.usage;
        self.cost = add_costs(self.cost, turn.cost);
        self.turns += 1;
        self.turn_usage.push(turn);
    }

    /// Adds a side call made for `purpose` to the statistics.
    pub fn add_side_call(&mut self, purpose: impl Into<String>, call: TurnUsage) {
        self.usage += call.usage;
        self.cost = add_costs(self.cost, call.cost);
        self.side_calls.entry(purpose.into()).or_default().push(call);
    }

    /// Adds the statistics of the next run of the same conversation.
    pub fn add_run(&mut self, next: Self) {
        self.usage += next.usage;
        self.cost = add_costs(self.cost, next.cost);
        self.turns += next.turns;
        self.turn_usage.extend(next.turn_usage);
        for (purpose, calls) in next.side_calls {
            self.side_calls.entry(purpose).or_default().extend(calls);
        }
        for (tool, count) in next.tool_calls {
            *self.tool_calls.entry(tool).or_default() += count;
        }
        self.first_token_ms = self.first_token_ms.or(next.first_token_ms);
        self.duration_ms = self.duration_ms.saturating_add(next.duration_ms);
        self.output = next.output.or_else(|| self.output.take());
        self.children.extend(next.children);
    }

    /// Adds the statistics of a finished sub-agent.
    pub fn add_child(&mut self, child: Self) {
        self.usage += child.usage;
        self.cost = add_costs(self.cost, child.cost);
        self.children.push(child);
    }

    /// Returns the cost, or `None` if no turn's cost is known; without turns the cost is 0.
    #[must_use]
    pub fn known_cost(&self) -> Option<f64> {
        self.cost.or_else(|| self.all_usage().next().is_none().then_some(0.0))
    }

    /// Returns the usage of every turn of the tree of agents, depth first.
    #[must_use]
    pub fn flatten(&self) -> Vec<&TurnUsage> {
        let mut all: Vec<_> = self.turn_usage.iter().collect();
        all.extend(self.children.iter().flat_map(Self::flatten));
        all
    }

    /// Iterates over the usage of all turns and side calls of the tree of agents.
    fn all_usage(&self) -> Box<dyn Iterator<Item = &TurnUsage> + '_> {
        let own = self.turn_usage.iter().chain(self.side_calls.values().flatten());
        Box::new(own.chain(self.children.iter().flat_map(Self::all_usage)))
    }

    /// Sums the whole tree up by model; side calls count in usage and cost, not as turns.
    #[must_use]
    pub fn by_model(&self) -> BTreeMap<ModelRef, ModelStats> {
        let stats = |spent: Spending| ModelStats { turns: 0, usage: spent.usage, cost: spent.cost };
        let models = Spending::by_model(self.all_usage()).into_iter();
        let mut models: BTreeMap<ModelRef, ModelStats> =
            models.map(|(model, spent)| (model, stats(spent))).collect();
        for turn in self.flatten() {
            models.entry(turn.model.clone()).or_default().turns += 1;
        }
        models
    }
}
