use serde::{Deserialize, Serialize};
use zk_core::model::{CheckItem, CheckState};

use crate::{CallState, Text};

/// Content of the status line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// Present activity.
    pub activity: Activity,
    /// Duration of the activity in milliseconds, at the time of this status.
    pub activity_ms: u64,
    /// Duration of the run in milliseconds; `None` between runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
    /// Tokens the run has read.
    pub tokens_read: u64,
    /// Output tokens of the run; those of the arriving response are estimated by its length.
    pub tokens_written: u64,
    /// Cost of the run so far in US dollars, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Tokens in the context, by the last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Fill level of the context at the last request; `None` before one, and if the window is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gauge: Option<ContextGauge>,
}

/// Fill level of the context, and the number of compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextGauge {
    /// Tokens of the request, estimated.
    pub tokens: u64,
    /// Tokens that a request may have.
    pub usable: u64,
    /// Share of the window in percent.
    pub percent: u64,
    /// Colour by urgency.
    pub colour: GaugeColour,
    /// Compactions of this conversation so far; shown as a badge if not 0.
    pub compactions: u32,
    /// Figures of the last compaction, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastCompaction>,
}

/// Figures of the last compaction of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastCompaction {
    /// Estimated tokens of the last request before the compaction.
    pub before: u64,
    /// Estimated tokens of the first request after the compaction.
    pub after: u64,
    /// Time since then in milliseconds, in whole minutes.
    pub age_ms: u64,
}

/// The colour of a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GaugeColour {
    /// Below 70 %.
    Green,
    /// From 70 % to 90 %.
    Yellow,
    /// Above 90 %.
    Red,
}

impl ContextGauge {
    /// Gauge of a request; `None` if the window is 0.
    #[must_use]
    pub fn new(tokens: u64, usable: u64, compactions: u32) -> Option<Self> {
        let percent = tokens.saturating_mul(100).checked_div(usable)?;
        let colour = match percent {
            0..70 => GaugeColour::Green,
            70..=90 => GaugeColour::Yellow,
            _ => GaugeColour::Red,
        };
        Some(Self { tokens, usable, percent, colour, compactions, last: None })
    }
}

/// Activity of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doing", rename_all = "snake_case")]
pub enum Activity {
    /// No run.
    #[default]
    Idle,
    /// A run is being prepared.
    Starting,
    /// Compaction.
    Compacting {
        /// Estimated tokens of the last request before the compaction.
        before: u64,
    },
    /// A request was sent; no response yet.
    Waiting {
        /// The model.
        model: Text,
    },
    /// A response has been silent for some seconds.
    Silent {
        /// The model.
        model: Text,
        /// Milliseconds of silence.
        idle_ms: u64,
        /// Time-out in milliseconds after which the request fails.
        limit_ms: u64,
        /// Whether keep-alives arrive.
        keep_alives: bool,
    },
    /// A request waits for a retry.
    Retrying {
        /// Cause of the wait.
        why: Text,
        /// Failed attempt, from 1; 0 if none was made.
        attempt: u32,
        /// Maximum number of attempts.
        max_attempts: u32,
        /// Milliseconds until the next attempt.
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
        /// Summaries of the calls, in a line each.
        calls: Vec<Text>,
        /// Progress of the calls of this answer.
        #[serde(flatten)]
        batch: BatchCounts,
    },
    /// A question to the person is open.
    Asking,
    /// The run is being stopped.
    Stopping,
}

impl Activity {
    /// Reason for a retry, with the number of the failed attempt; `None` for other activities.
    ///
    /// ```
    /// use zk_view::{Activity, Text};
    ///
    /// let why = Text::new("overloaded: busy");
    /// let retrying = Activity::Retrying { why, attempt: 3, max_attempts: 10, left_ms: 4000 };
    /// assert_eq!(retrying.failed_attempt().as_deref(), Some("attempt 3 of 10: overloaded: busy"));
    /// ```
    #[must_use]
    pub fn failed_attempt(&self) -> Option<String> {
        match self {
            Self::Retrying { why, attempt: 0, .. } => Some(why.as_str().to_owned()),
            Self::Retrying { why, attempt, max_attempts, .. } => {
                Some(format!("attempt {attempt} of {max_attempts}: {why}"))
            }
            Self::Idle
            | Self::Starting
            | Self::Compacting { .. }
            | Self::Waiting { .. }
            | Self::Silent { .. }
            | Self::Thinking
            | Self::Answering
            | Self::Writing { .. }
            | Self::Running { .. }
            | Self::Asking
            | Self::Stopping => None,
        }
    }
}

/// Progress of one answer's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BatchCounts {
    /// Calls that ended, with any outcome.
    pub over: u32,
    /// Number of calls in the answer.
    #[serde(rename = "of")]
    pub total: u32,
    /// Failed calls, including invalid ones, unknown tools and cut-off ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u32,
    /// Calls refused by a guard or the person.
    #[serde(skip_serializing_if = "is_zero")]
    pub refused: u32,
    /// Calls that did not run: the batch ended first, or they are parked for a person who is absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl BatchCounts {
    /// Adds a call with this state.
    pub(crate) fn add(&mut self, state: CallState) {
        self.total += 1;
        self.over += u32::from(state.is_over());
        if let Some(count) = self.count_of(state) {
            *count += 1;
        }
    }

    /// Removes a call with this state.
    pub(crate) fn subtract(&mut self, state: CallState) {
        self.total = self.total.saturating_sub(1);
        self.over = self.over.saturating_sub(u32::from(state.is_over()));
        if let Some(count) = self.count_of(state) {
            *count = count.saturating_sub(1);
        }
    }

    /// Counter for an unsuccessful state.
    fn count_of(&mut self, state: CallState) -> Option<&mut u32> {
        match state {
            CallState::Writing | CallState::Waiting | CallState::Running | CallState::Done => None,
            CallState::Failed | CallState::Invalid | CallState::Unknown | CallState::OutcomeUnknown => {
                Some(&mut self.failed)
            }
            CallState::Refused => Some(&mut self.refused),
            CallState::Skipped | CallState::Parked | CallState::NotRun => Some(&mut self.skipped),
        }
    }

    /// Describes the counts for a person; `None` for a single call.
    ///
    /// ```
    /// let counts = zk_view::BatchCounts { over: 3, total: 5, failed: 1, ..Default::default() };
    /// assert_eq!(counts.describe().as_deref(), Some("3 of 5 done, 1 failed"));
    /// ```
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        let mut text = format!("{} of {} done", self.over, self.total);
        for (count, what) in [(self.failed, "failed"), (self.refused, "refused"), (self.skipped, "not run")] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        (self.total > 1).then_some(text)
    }
}

/// A sub-agent as a list shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentRow {
    /// Name of the sub-agent, unique in the tree of agents: blocks of the sub-agent carry it as their `agent`.
    pub name: Text,
    /// 1 for a child of the conversation's agent.
    pub depth: u32,
    /// Task of the sub-agent, in one line.
    pub task: Text,
    /// State of the sub-agent.
    pub state: AgentState,
    /// Tokens in its context, by its last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Fill level of the sub-agent's context, if its window is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gauge: Option<ContextGauge>,
    /// Cost of the sub-agent so far in US dollars, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Tokens that the sub-agent has read and written so far.
    #[serde(default)]
    pub tokens: u64,
    /// Answers of the model that the sub-agent has got.
    #[serde(default)]
    pub turns: u32,
    /// Whether the conversation goes on meanwhile.
    #[serde(default)]
    pub is_background: bool,
    /// Calls of tools that the sub-agent has finished.
    #[serde(default)]
    pub calls: u32,
    /// Milliseconds that the sub-agent has worked, as of this row.
    #[serde(default)]
    pub elapsed_ms: u64,
}

impl AgentRow {
    /// Whether the sub-agent works in the background, beyond the end of a run.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.is_background && self.state == AgentState::Running
    }

    /// Title of the sub-agent: its task, or its name without one.
    #[must_use]
    pub fn title(&self) -> &str {
        let task = self.task.as_str().trim();
        if task.is_empty() { self.name.as_str() } else { task }
    }
}

/// State of a sub-agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Sub-agent that works.
    Running,
    /// Sub-agent that finished.
    Done,
    /// Sub-agent that failed.
    Failed,
    /// Sub-agent that was stopped.
    Stopped,
}

/// Item of the to-do list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckRow {
    /// Text of the item, in one line.
    pub text: Text,
    /// State of the item.
    pub state: CheckState,
}

impl CheckRow {
    pub(crate) fn of(item: &CheckItem) -> Self {
        Self { text: Text::line(&item.text), state: item.state }
    }
}

/// A command in the background, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobRow {
    /// Id that the command is named by.
    pub id: Text,
    /// Command, in one line.
    pub command: Text,
    /// State of the command.
    pub state: JobState,
    /// Whether it survives the end of the conversation.
    #[serde(default)]
    pub detached: bool,
}

/// State of a command in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum JobState {
    /// Command that runs.
    Running,
    /// Command that is being killed.
    Ending,
    /// Command that ended.
    Ended {
        /// Outcome in a few words.
        how: Text,
        /// Whether the command failed.
        failed: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_green_yellow_and_red_and_hidden_without_a_window() {
        let colour = |tokens| ContextGauge::new(tokens, 100, 0).map(|gauge| gauge.colour);
        use GaugeColour::{Green, Red, Yellow};
        assert_eq!([69, 70, 90, 91].map(colour), [Green, Yellow, Yellow, Red].map(Some));
        assert_eq!(ContextGauge::new(5, 0, 0), None);
    }
}
