use std::fmt;

use serde::{Deserialize, Serialize};

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// Ready for a worker.
    Queued,
    /// A worker runs a leg.
    Running,
    /// Waiting for an event, without a worker.
    Parked,
    /// Finished normally.
    Done,
    /// Ended by an error.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl RunPhase {
    /// Whether the run is over.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Running | Self::Parked => false,
        }
    }

    /// Returns the phase in one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Parked => "parked",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for RunPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
