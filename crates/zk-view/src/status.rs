use serde::{Deserialize, Serialize};

use crate::Text;

/// What is going on now: what a status line shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// What.
    pub activity: Activity,
    /// Milliseconds it has been going on, as of this status.
    pub activity_ms: u64,
    /// Milliseconds of the run; nothing when none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
    /// Tokens the run has read.
    pub tokens_read: u64,
    /// Tokens the run has written; what is arriving now is estimated by its length.
    pub tokens_written: u64,
    /// What the run has cost so far in US dollars, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Tokens in the context, by the last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
}

/// What is going on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doing", rename_all = "snake_case")]
pub enum Activity {
    /// Nothing.
    #[default]
    Idle,
    /// A run is being prepared.
    Starting,
    /// The model was asked and says nothing yet.
    Waiting {
        /// The model.
        model: Text,
    },
    /// Nothing has been heard of a response for some seconds.
    Silent {
        /// The model.
        model: Text,
        /// Milliseconds of silence.
        idle_ms: u64,
        /// With how many the request is given up.
        limit_ms: u64,
        /// Whether the connection gives signs of life.
        keep_alives: bool,
    },
    /// A request waits to be sent again.
    Retrying {
        /// Why.
        why: Text,
        /// The attempt that failed, from 1; 0 if none was made.
        attempt: u32,
        /// How many there will be at most.
        max_attempts: u32,
        /// Milliseconds until the next one.
        left_ms: u64,
    },
    /// The model reasons.
    Thinking,
    /// The model answers.
    Answering,
    /// The model writes the arguments of a call.
    Writing {
        /// The tool.
        tool: Text,
    },
    /// Tools run.
    Running {
        /// What they do, in a line each.
        calls: Vec<Text>,
    },
    /// The person is asked something.
    Asking,
    /// The run is being stopped.
    Stopping,
}

/// A sub-agent as a list shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentRow {
    /// Its name.
    pub name: Text,
    /// 1 for a child of the conversation's agent.
    pub depth: u32,
    /// What it was asked, in one line.
    pub task: Text,
    /// How it is doing.
    pub state: AgentState,
    /// Tokens in its context, by its last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// What it cost so far in US dollars, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// How a sub-agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// It works.
    Running,
    /// It finished.
    Done,
    /// It failed.
    Failed,
}
