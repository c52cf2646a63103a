use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::{ToolGate, notify};
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
    /// Record of a decision about the call that waits at `gate`, with the reasons for it; no mode is named that would allow it.
    #[must_use]
    pub fn of(gate: &ToolGate, allowed: bool, by: DecidedBy, reasons: Vec<String>) -> Self {
        Self {
            call: gate.call.clone(),
            args: gate.args.clone(),
            effects: gate.effects.clone(),
            cwd: gate.place.cwd.clone(),
            allowed,
            by,
            reasons,
            allowed_by: None,
        }
    }

    /// Last reason of a call that a judge would ask about, or nobody judged, and that the mode of the gate lets run.
    pub const MODE_ALLOWS_ALL: &str = "the mode allows everything";
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
