use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::ParkedQuestion;
use crate::model::{CallId, CallRef, RunId, TurnId};
use crate::service::engine::unix_ms;

/// Kind of the plugin entry that holds a [`StoredWait`].
pub const WAIT_ENTRY: &str = "wait";

/// Parked call: it runs once its wait is over.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use zk_core::events::Ruling;
/// use zk_core::service::ParkedCall;
///
/// let opens = SystemTime::now() + Duration::from_secs(3600);
/// // A gate is asked again then, and lets the call through.
/// let ruling = Ruling::Park(ParkedCall::until(opens, "the office opens"));
/// # assert!(matches!(ruling, Ruling::Park(_)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ParkedCall {
    /// Reason for the wait.
    pub reason: String,
    /// Event that a later leg goes on with; without one nothing ends the wait, and the run ends.
    pub wait: Option<ParkedWait>,
}

/// Event that ends the wait of a parked call. Steering ends it, too: the call is skipped then.
#[derive(Clone, Debug, PartialEq)]
pub enum ParkedWait {
    /// The answer to a question.
    Answer(Box<ParkedQuestion>),
    /// A time.
    Until(SystemTime),
}

impl ParkedCall {
    /// Parks a call until a person has answered `question`.
    #[must_use]
    pub fn asking(question: ParkedQuestion, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), wait: Some(ParkedWait::Answer(Box::new(question))) }
    }

    /// Parks a call until a time.
    #[must_use]
    pub fn until(time: SystemTime, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), wait: Some(ParkedWait::Until(time)) }
    }
}

impl From<String> for ParkedCall {
    fn from(reason: String) -> Self {
        Self { reason, wait: None }
    }
}

impl From<&str> for ParkedCall {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

/// Wait of a parked call for a time, in its session: later legs wait for the same one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredWait {
    /// Run that waits.
    pub run_id: RunId,
    /// Turn of the call.
    pub turn_id: TurnId,
    /// Id of the call.
    pub call_id: CallId,
    /// Canonical name of the tool.
    pub tool: String,
    /// Reason for the wait.
    pub reason: String,
    /// Time at which the wait is over, serialised as milliseconds since 1970.
    #[serde(rename = "until_ms", with = "unix_ms")]
    pub until: SystemTime,
}

impl StoredWait {
    /// Whether this is the wait of a call. Providers repeat the ids of calls in later turns.
    pub(super) fn is_of(&self, call: &CallRef) -> bool {
        self.turn_id == call.turn_id && self.call_id == call.call_id
    }
}
