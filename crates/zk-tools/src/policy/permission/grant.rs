use serde_json::Value;
use zk_core::events::ToolGate;
use zk_core::model::{Effect, Effects};

/// What one choice allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grant {
    /// Every call of a tool that only writes files.
    Tool(String),
    /// This call with exactly these arguments, as JSON, and what it runs if that is another command.
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
        let (args, runs) = (exact_args(gate), other_commands(gate));
        let runs = runs.map(|runs| format!(" {runs}")).unwrap_or_default();
        Self::Exact(gate.call.name.clone(), format!("{args}{runs}"))
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

/// What runs that is not the command in the arguments, as JSON: the host may run a line of its own before it. Who allowed a
/// call did not allow it with another such line.
pub(super) fn other_commands(gate: &ToolGate) -> Option<Value> {
    commands_beside(&gate.effects, &gate.args)
}

/// The commands of `effects` that are not the one in `args`.
pub(super) fn commands_beside(effects: &Effects, args: &Value) -> Option<Value> {
    let named = args.get("command").and_then(Value::as_str);
    let Effects::Known { list } = effects else { return None };
    let others: Vec<Value> = list
        .iter()
        .filter_map(|effect| match effect {
            Effect::Executes { command, .. } => command.as_deref().filter(|command| Some(*command) != named),
            Effect::Reads { .. }
            | Effect::Writes { .. }
            | Effect::Network { .. }
            | Effect::LeavesContext { .. } => None,
        })
        .map(Value::from)
        .collect();
    (!others.is_empty()).then_some(Value::Array(others))
}
