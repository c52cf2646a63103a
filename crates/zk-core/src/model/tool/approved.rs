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
    /// Turn in which the model made the call.
    pub turn_id: TurnId,
    /// Id of the call.
    pub call_id: CallId,
    /// Canonical name of the tool, which hooks match on.
    pub name: String,
    /// Name that the model used for the tool.
    pub display_name: String,
}

/// A call that all gates approved, with the arguments they saw.
///
/// Only [`ToolGate::pass`](crate::events::ToolGate::pass) creates one, and nothing can change it afterwards:
/// exactly the approved arguments run, whatever decorates the tool. This does not protect against plugins,
/// which are trusted code of the program: a plugin could send other arguments through the gates of a bus of
/// its own, as it could act without any tool.
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

    /// Returns the arguments that the gates saw.
    #[must_use]
    pub fn args(&self) -> &Value {
        &self.args
    }

    /// Returns the effects that the gates saw.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Parses the arguments as a `T`.
    ///
    /// # Errors
    /// [`ToolError`] of kind `InvalidArgs` that names the unfitting argument, for the model to correct.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        T::deserialize(&self.args).map_err(|error| ToolError::misfit(&self.call.name, &error))
    }
}
