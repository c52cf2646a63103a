use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::notify;
use crate::kernel::{OnError, Reach};
use crate::model::{CallRef, Effects};

/// A permission gate decided about a call. Whoever keeps a record of what ran writes it here: a handler that fails
/// refuses the call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PermissionDecided {
    /// The call.
    pub call: Arc<CallRef>,
    /// Arguments of the call, as they run.
    pub args: Value,
    /// Effects of the call, as its tool declares them.
    pub effects: Effects,
    /// Directory that the call runs in.
    pub cwd: PathBuf,
    /// Whether it may run.
    pub allowed: bool,
    /// Origin of the decision.
    pub by: DecidedBy,
    /// Reasons for the decision, a line for each part of the call that had a say in it.
    pub reasons: Vec<String>,
    /// The tightest permission mode in which a refused call would run; nothing where none is known.
    pub allowed_by: Option<String>,
}
notify!(
    PermissionDecided,
    "permission:decided",
    ON_ERROR = OnError::Throw,
    CANCELLABLE = false,
    REACH = Reach::Descendants
);

impl PermissionDecided {
    /// Last reason of a call that a judge would ask about, or nobody judged, and that the mode of the gate lets run.
    pub const MODE_ALLOWS_ALL: &str = "the mode allows everything";

    /// Last reason of a call that wants to leave its sandbox and that a person lets run inside of it, with connections.
    pub const STAYS_IN_SANDBOX: &str = "answered: once, in the sandbox, with the network";
}

/// Origin of a decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The mode and the rules.
    Policy,
    /// An earlier answer of a person, to this call or to calls like it.
    EarlierAnswer,
    /// A handler of [`PermissionRequest`](crate::events::PermissionRequest), in the place of a person.
    Plugin,
    /// A person, just now.
    Person,
    /// Nobody was there to decide, or to decide in time.
    Nobody,
}
