use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::notify;
use crate::kernel::{Absorb, Event, Fold, OnError, Reach, Source};
use crate::model::CallRef;

/// A valid call before the gates judge it. Only here may handlers rewrite its arguments.
///
/// A failing handler refuses the call and is named in the refusal. Changed arguments are validated again.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ToolPrepare {
    /// Call to prepare.
    pub call: Arc<CallRef>,
    /// Valid and coerced arguments, as rewritten so far.
    pub args: Value,
    /// Source of the handler that rewrote the arguments last.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub rewritten_by: Option<Source>,
}

impl Event for ToolPrepare {
    const NAME: &'static str = "tool:prepare";
    /// A parent's rewrites, such as a path prefix, apply to its sub-agents too.
    const REACH: Reach = Reach::Descendants;
    const ON_ERROR: OnError = OnError::Throw;
    const TIME_LIMIT: Option<Duration> = Some(Duration::from_secs(30));
    type Reply = Value;
    type Mode = Fold;
}

impl Absorb for ToolPrepare {
    fn absorb(&mut self, args: Value, from: &Source) -> ControlFlow<()> {
        if self.args != args {
            self.args = args;
            self.rewritten_by = Some(from.clone());
        }
        ControlFlow::Continue(())
    }
}

/// A call's arguments do not fit the tool's schema, and no coercion helped.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ValidationReject {
    /// Call with invalid arguments.
    pub call: Arc<CallRef>,
    /// Arguments that were rejected.
    pub args: Value,
    /// Problems of the arguments, for the model.
    pub issues: Vec<String>,
}
notify!(ValidationReject, "validation:reject");

/// Conversion of one argument to the type that the schema asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Coercion {
    /// Name of the argument.
    pub key: String,
    /// Value as the model gave it.
    pub from: Value,
    /// Value as the tool gets it.
    pub to: Value,
}

/// A call's arguments fit after at least one coercion.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ValidationCoerce {
    /// Call with converted arguments.
    pub call: Arc<CallRef>,
    /// The conversions that were made.
    pub coercions: Vec<Coercion>,
}
notify!(ValidationCoerce, "validation:coerce");
