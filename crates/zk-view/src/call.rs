use serde::{Deserialize, Serialize};
use zk_core::model::CallId;

use crate::{Body, Text};

/// Lines and bytes of a running call's output that are kept.
const PROGRESS: (usize, usize) = (5, 2048);

/// A tool call as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Call {
    /// The id its provider gave it; not unique in a session.
    pub call_id: CallId,
    /// The number of the answer it is of, among those of its run, from 0.
    pub step: u32,
    /// The tool's canonical name.
    pub tool: Text,
    /// What it does, in one line; the tool's name where nothing better is known.
    pub summary: Text,
    /// How far it is.
    pub state: CallState,
    /// Why it did not run, where somebody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// The end of what it printed so far; empty once it is over.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub progress: Text,
    /// Its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Milliseconds it ran, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// The model is writing its arguments.
    Writing,
    /// It waits for its turn, its guards or the person.
    Waiting,
    /// It runs.
    Running,
    /// It ended well.
    Done,
    /// It failed.
    Failed,
    /// A guard or the person refused it.
    Refused,
    /// Its batch ended before it ran.
    Skipped,
    /// It waits for somebody who is not here.
    Parked,
    /// Its arguments do not fit its tool.
    Invalid,
    /// There is no such tool.
    Unknown,
    /// It was cut off while it ran: whether it took effect is not known.
    OutcomeUnknown,
    /// Its process ended before its result was stored; it changed nothing.
    NotRun,
}

impl CallState {
    /// Whether the call is over.
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Writing | Self::Waiting | Self::Running => false,
            Self::Done
            | Self::Failed
            | Self::Refused
            | Self::Skipped
            | Self::Parked
            | Self::Invalid
            | Self::Unknown
            | Self::OutcomeUnknown
            | Self::NotRun => true,
        }
    }
}

impl Call {
    pub(crate) fn new(call_id: CallId, step: u32, tool: &str, state: CallState) -> Self {
        Self {
            call_id,
            step,
            tool: Text::line(tool),
            summary: Text::line(tool),
            state,
            reason: None,
            progress: Text::default(),
            body: None,
            elapsed_ms: None,
        }
    }

    pub(crate) fn add_progress(&mut self, delta: &Text) {
        self.progress.append(delta);
        self.progress.keep_end(PROGRESS.0, PROGRESS.1);
    }
}
