use serde_json::Value;
use zk_core::events::ToolGate;
use zk_core::model::{Effect, Effects};

/// What one choice allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grant {
    /// Every call of a tool that only writes files.
    Tool(String),
    /// This call with exactly these arguments, as JSON.
    Exact(String, String),
}

impl Grant {
    /// What *for this session* allows where no judge knows more of the call: for a tool that only writes files, the tool;
    /// for anything else, whose next call may do something quite different, the call as it is.
    pub(super) fn for_session(gate: &ToolGate) -> Self {
        let writes_files = match &gate.effects {
            Effects::Unknown => false,
            Effects::Known { list } => list.iter().all(|effect| match effect {
                Effect::Reads { .. } | Effect::Writes { .. } => true,
                Effect::Executes { .. } | Effect::Network { .. } | Effect::LeavesContext { .. } => false,
            }),
        };
        if writes_files { Self::Tool(gate.call.name.clone()) } else { Self::exact(gate) }
    }

    pub(super) fn exact(gate: &ToolGate) -> Self {
        Self::Exact(gate.call.name.clone(), exact_args(gate).to_string())
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Tool(name) => format!("every call of `{name}`"),
            Self::Exact(..) => "exactly this call".to_owned(),
        }
    }
}

/// The arguments that make a call the same as another one: all but the words by which a model asks to leave the sandbox,
/// which it puts differently each time.
pub(super) fn exact_args(gate: &ToolGate) -> Value {
    let mut args = gate.args.clone();
    if gate.effects.leaves_context()
        && let Some(reason) = args.pointer_mut("/outside/reason")
    {
        *reason = Value::Null;
    }
    args
}
