use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::{CallId, Effects, ToolError, TurnId};

/// Identity of a tool call in events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CallRef {
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub call_id: CallId,
    /// The tool's canonical name: what hooks match on.
    pub name: String,
    /// The name the model used.
    pub display_name: String,
}

/// A call that passed its gates, with the arguments they saw.
///
/// The only way to one is [`ToolGate::pass`](crate::events::ToolGate::pass), and nothing can change it
/// afterwards: what was approved is what runs, whatever decorates the tool. Plugins are code of the program, trusted as
/// such: one that takes other arguments through the gates of a bus of its own makes a call that nobody was asked about, as
/// it could without any tool.
///
/// ```compile_fail,E0594
/// # use zk_core::model::Approved;
/// fn change(call: &mut Approved) {
///     *call.args() = serde_json::json!({ "command": "something else" });
/// }
/// ```
///
/// ```compile_fail,E0451
/// # use zk_core::model::Approved;
/// fn forge(call: &Approved) -> Approved {
///     Approved { args: serde_json::json!({ "command": "something else" }), ..call.clone() }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Approved {
    call: Arc<CallRef>,
    args: Value,
    effects: Effects,
}

impl Approved {
    pub(crate) fn new(call: Arc<CallRef>, args: Value, effects: Effects) -> Self {
        Self { call, args, effects }
    }

    /// The call's identity.
    #[must_use]
    pub fn call(&self) -> &Arc<CallRef> {
        &self.call
    }

    /// The arguments, as the gates saw them.
    #[must_use]
    pub fn args(&self) -> &Value {
        &self.args
    }

    /// The effects, as the gates saw them.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// The arguments as a `T`.
    ///
    /// # Errors
    /// [`ToolError`] of kind `InvalidArgs` that names what does not fit, for the model to correct.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        T::deserialize(&self.args).map_err(|error| ToolError::misfit(&self.call.name, &error))
    }
}
