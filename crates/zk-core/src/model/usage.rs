use std::collections::BTreeMap;
use std::ops::AddAssign;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::models::dollars;
use super::{ModelRef, TurnId};

/// Tokens of one response, normalised: the four counts do not overlap, whatever the provider counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct Usage {
    /// Input that was neither read from nor written to a cache.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
    /// The part of `cache_write` that is kept for an hour.
    #[serde(skip_serializing_if = "is_none")]
    pub cache_write_1h: u64,
    /// The part of `output` that was reasoning.
    pub reasoning: u64,
    /// Cost in billionths of a US dollar, where the prices of the model that was asked do not say it: the
    /// provider says so, or the response was made of several, each with a price of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billed: Option<u64>,
    /// The part of all this that other models used whose prices are not known: nor is the cost then, unless it
    /// is `billed`.
    #[serde(skip_serializing_if = "is_none")]
    pub unpriced: u64,
    /// Tokens that the last of several responses read that the counts are of; nothing where they are of one,
    /// or of turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_read: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Everything that was read: what the input costs.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }

    /// Returns the tokens of the window that the response has filled, its output left out: everything that
    /// was read, but only by the last of several responses that the provider made it of.
    #[must_use]
    pub fn context(&self) -> u64 {
        self.last_read.unwrap_or_else(|| self.read())
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.cache_write_1h += other.cache_write_1h;
        self.reasoning += other.reasoning;
        self.billed = match (self.billed, other.billed) {
            (None, None) => None,
            (one, more) => Some(one.unwrap_or_default() + more.unwrap_or_default()),
        };
        self.unpriced += other.unpriced;
        self.last_read = None;
    }
}

/// The usage of one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TurnUsage {
    /// The turn.
    pub turn_id: TurnId,
    /// The model that answered.
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
    /// Tokens of this run, of its side calls and of all its sub-agents.
    pub usage: Usage,
    /// Cost in US dollars of the same: the sum of the turns whose cost is known, so the least that all of them cost;
    /// nothing as long as there is none.
    #[serde(default)]
    pub cost: Option<f64>,
    /// Turns of this run alone.
    pub turns: u32,
    /// Usage of those turns.
    pub turn_usage: Vec<TurnUsage>,
    /// Usage of the side calls to a model, by what they were for. No turns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub side_calls: BTreeMap<String, Vec<TurnUsage>>,
    /// Tool calls that were not blocked, by canonical name.
    pub tool_calls: BTreeMap<String, u32>,
    /// Milliseconds from the start of the run to the first text, thinking or tool call.
    pub first_token_ms: Option<u64>,
    /// Milliseconds the run took.
    pub duration_ms: u64,
    /// The structured output, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Sub-agents in the order they finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Stats>,
}

/// The share of one model in a tree of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ModelStats {
    /// Turns it answered.
    pub turns: u32,
    /// Tokens of the model's share.
    pub usage: Usage,
    /// Cost of the model's share in US dollars, as in [`Stats::cost`].
    pub cost: Option<f64>,
}

/// The sum of what is known of two costs.
fn both(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(dollars(one + other)),
        (one, other) => one.or(other),
    }
}

impl Stats {
    /// Takes a turn in.
    pub fn add_turn(&mut self, turn: TurnUsage) {
        self.usage += turn.usage;
        self.cost = both(self.cost, turn.cost);
        self.turns += 1;
        self.turn_usage.push(turn);
    }

    /// Takes a side call made for `purpose` in.
    pub fn add_side_call(&mut self, purpose: impl Into<String>, call: TurnUsage) {
        self.usage += call.usage;
        self.cost = both(self.cost, call.cost);
        self.side_calls.entry(purpose.into()).or_default().push(call);
    }

    /// Takes a finished sub-agent in.
    pub fn add_child(&mut self, child: Self) {
        self.usage += child.usage;
        self.cost = both(self.cost, child.cost);
        self.children.push(child);
    }

    /// The cost, unless nobody knows what any of the turns cost: without turns it is nothing.
    #[must_use]
    pub fn known_cost(&self) -> Option<f64> {
        self.cost.or_else(|| self.billed().next().is_none().then_some(0.0))
    }

    /// The usage of every turn of the tree, depth first.
    #[must_use]
    pub fn flatten(&self) -> Vec<&TurnUsage> {
        let mut all: Vec<_> = self.turn_usage.iter().collect();
        all.extend(self.children.iter().flat_map(Self::flatten));
        all
    }

    /// The usage of everything in the tree that was billed, turns and side calls.
    fn billed(&self) -> Box<dyn Iterator<Item = &TurnUsage> + '_> {
        let own = self.turn_usage.iter().chain(self.side_calls.values().flatten());
        Box::new(own.chain(self.children.iter().flat_map(Self::billed)))
    }

    /// The whole tree by model; side calls count in usage and cost, and are no turns.
    #[must_use]
    pub fn by_model(&self) -> BTreeMap<ModelRef, ModelStats> {
        let mut models = BTreeMap::<ModelRef, ModelStats>::new();
        for turn in self.billed() {
            let entry = models.entry(turn.model.clone()).or_default();
            entry.usage += turn.usage;
            entry.cost = both(entry.cost, turn.cost);
        }
        for turn in self.flatten() {
            models.entry(turn.model.clone()).or_default().turns += 1;
        }
        models
    }
}
