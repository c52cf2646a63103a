use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::goal::GoalRules;

/// Goals of conversations, and autonomous work towards them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-by-projects" = false))]
pub struct GoalSettings {
    /// Whether a goal may be autonomous: the conversation then goes on by itself until the goal is reached, a cap is
    /// reached, or there is no progress. `zk -p --goal` sets it for its run.
    pub autonomous: bool,
    /// Last line of an answer by which the model says that the goal is reached.
    pub phrase: String,
    /// Turns that an autonomous goal may take, unless it is created with another cap.
    #[schemars(range(min = 1))]
    pub max_turns: u32,
    /// Pause between an answer and the next turn of an autonomous goal, in milliseconds.
    #[schemars(range(max = 60_000))]
    pub pause_ms: u64,
    /// Turns after which the supervisor of an autonomous goal gives its verdict again; 0 for no supervisor.
    pub supervisor_turns: u32,
    /// Time limit of a verdict, in seconds.
    #[schemars(range(min = 1, max = 600))]
    pub supervisor_seconds: u64,
    /// Equal answers in a row after which an autonomous goal is stuck.
    #[schemars(range(min = 2))]
    pub identical_answers: u32,
    /// Failed turns in a row after which an autonomous goal is stuck.
    #[schemars(range(min = 1))]
    pub failures: u32,
    /// Whether each prompt of a person is the goal of the conversation while no other one is set. Such a goal is only
    /// shown and announced; the model is not told of it.
    pub from_prompts: bool,
}

impl Default for GoalSettings {
    fn default() -> Self {
        Self {
            autonomous: false,
            phrase: "The goal is reached.".to_owned(),
            max_turns: 50,
            pause_ms: 500,
            supervisor_turns: 5,
            supervisor_seconds: 30,
            identical_answers: 3,
            failures: 5,
            from_prompts: false,
        }
    }
}

impl GoalSettings {
    /// Returns the pause between an answer and the next turn.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms)
    }

    /// Returns the time limit of a verdict.
    pub(crate) fn verdict_limit(&self) -> Duration {
        Duration::from_secs(self.supervisor_seconds)
    }

    /// Returns the rules of the state machine.
    #[must_use]
    pub fn rules(&self) -> GoalRules {
        let phrase = match self.phrase.trim() {
            "" => Self::default().phrase,
            phrase => phrase.to_owned(),
        };
        GoalRules {
            phrase,
            supervisor_turns: self.supervisor_turns,
            identical_answers: self.identical_answers.max(2),
            failures: self.failures.max(1),
            from_prompts: self.from_prompts,
        }
    }
}
