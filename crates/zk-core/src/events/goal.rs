use std::fmt;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::notify;

/// State of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GoalState {
    /// The conversation works towards the goal.
    Active,
    /// The work was stopped, and goes on with the next prompt of a person.
    Paused,
    /// The goal is reached.
    Completed,
    /// No progress: equal answers, or failures in a row.
    Stuck,
    /// Budget exhausted: the cap on turns or on cost is reached.
    Capped,
    /// A person removed the goal.
    Cleared,
}

impl GoalState {
    /// Word for the state in texts and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Stuck => "stuck",
            Self::Capped => "capped",
            Self::Cleared => "cleared",
        }
    }
}

impl fmt::Display for GoalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The goal of a conversation changed its state, or what it waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GoalChanged {
    /// Number of the goal in its session, from 1.
    pub number: u64,
    /// Text of the goal.
    pub text: String,
    /// State after the change.
    pub state: GoalState,
    /// Reason for the state, if there is one to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the conversation goes on by itself towards the goal.
    pub autonomous: bool,
    /// Number of turns spent on the goal.
    pub turns: u32,
    /// Cap on these turns; `None` for no cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Cost of these turns in US dollars, as far as prices are known.
    pub cost: f64,
    /// Cap on this cost; `None` for no cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
    /// Decisions that wait for a person, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}
notify!(GoalChanged, "goal:changed", CANCELLABLE = false);

/// The supervisor of an autonomous goal gave its verdict, or none that can be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct GoalVerdict {
    /// Number of the goal in its session, from 1.
    pub number: u64,
    /// Number of turns spent on the goal when the supervisor was asked.
    pub turns: u32,
    /// Whether the goal is achieved; `None` without a verdict.
    pub achieved: Option<bool>,
    /// Reason of the verdict, or for there being none.
    pub reason: String,
}
notify!(GoalVerdict, "goal:verdict", CANCELLABLE = false);
