use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::{BoxError, Event, LastOrStop, OnError, Reach, Stops, WireReply};
use crate::model::{CallRef, Effects};

/// A call needs the permission of a person, before that person is asked, or instead if none is present. A
/// handler may answer on the person's behalf. A denial wins over permissions; a failing handler refuses the
/// call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PermissionRequest {
    /// Call that needs permission.
    pub call: Arc<CallRef>,
    /// Final arguments of the call.
    pub args: Value,
    /// Effects of the call, as declared by its tool.
    pub effects: Effects,
    /// Whether a rule demands a person's decision, so that a handler's permission does not count.
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

/// Answer to [`PermissionRequest`]; no answer leaves the decision to the person. In JSON `{"permission":
/// "allow"}` or `{"permission": "deny", "reason": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "permission", rename_all = "snake_case", deny_unknown_fields)]
pub enum PermissionReply {
    /// The call may run.
    Allow,
    /// The call may not run; the model gets the reason.
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
