use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::{ToolGate, notify};
use crate::kernel::{OnError, Reach};
use crate::model::{CallRef, Effects};

/// A permission gate decided about a call. An audit log is written here: a failing handler refuses the call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PermissionDecided {
    /// Call that was decided about.
    pub call: Arc<CallRef>,
    /// Final arguments of the call.
    pub args: Value,
    /// Effects of the call, as declared by its tool.
    pub effects: Effects,
    /// Directory that the call runs in.
    pub cwd: PathBuf,
    /// Whether the call may run.
    pub allowed: bool,
    /// Authority that decided.
    pub by: DecidedBy,
    /// Reasons for the decision, one line for each part of the call that was judged.
    pub reasons: Vec<String>,
    /// Tightest permission mode that would allow the refused call, if any is known.
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
    /// Creates the record of a decision about the call at `gate`, with its reasons and without
    /// [`allowed_by`](Self::allowed_by).
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

    /// Reason recorded last when only the gate's mode lets a call run: the judge would ask, or no judge was
    /// asked.
    pub const MODE_ALLOWS_ALL: &str = "the mode allows everything";

    /// Last reason of a call that wants to leave its sandbox and that a person lets run inside of it, with connections.
    pub const STAYS_IN_SANDBOX: &str = "answered: once, in the sandbox, with the network";
}

/// Authority that decided about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The permission mode and the rules.
    Policy,
    /// An earlier answer of a person, to this call or to similar calls.
    EarlierAnswer,
    /// A handler of [`PermissionRequest`](crate::events::PermissionRequest), on behalf of a person.
    Plugin,
    /// A person, just now.
    Person,
    /// No person was present, or none answered in time.
    Nobody,
}
