use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::{BoxError, Event, LastOrStop, OnError, Reach, Stops, WireReply};
use crate::model::{CallRef, Effects};

/// A call needs the permission of a person, who is about to be asked, or is not there to be asked. A handler may answer
/// instead. A denial wins over permissions; a handler that fails refuses the call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PermissionRequest {
    /// The call.
    pub call: Arc<CallRef>,
    /// Arguments of the call, as they will run.
    pub args: Value,
    /// Effects of the call, as its tool declares them.
    pub effects: Effects,
    /// Whether a rule wants a person to decide: a permission of a handler does not count then.
    pub by_rule: bool,
}

impl Event for PermissionRequest {
    const NAME: &'static str = "permission:request";
    const ON_ERROR: OnError = OnError::Throw;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
    const REACH: Reach = Reach::Descendants;
    type Reply = PermissionReply;
    type Mode = LastOrStop;
}

/// An answer to [`PermissionRequest`]. No answer leaves it to the person. In JSON `{"permission": "allow"}` or
/// `{"permission": "deny", "reason": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "permission", rename_all = "snake_case", deny_unknown_fields)]
pub enum PermissionReply {
    /// The call may run.
    Allow,
    /// The call may not run; the model is told why.
    Deny {
        /// Reason for the denial.
        reason: String,
    },
}

impl Stops for PermissionReply {
    fn stops(&self) -> bool {
        matches!(self, Self::Deny { .. })
    }
}

impl WireReply for PermissionReply {
    fn from_json(value: Value) -> Result<Self, BoxError> {
        Ok(serde_json::from_value(value)?)
    }
}
