use std::fmt::Write as _;

use serde_json::Value;
use zk_core::events::ToolGate;
use zk_core::kernel::Cx;
use zk_core::model::{Effect, Effects, SessionId};
use zk_core::service::{Connections, Files};

use super::exact_rule::call_bytes;
use super::scripts::named_scripts;

/// Calls that one choice allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grant {
    /// Every call of a tool that only writes files.
    Tool(String),
    /// Exactly this call, by its key.
    Exact(CallKey),
}

impl Grant {
    /// Session grant without a judge: for a tool that only writes files, the tool; otherwise the exact call,
    /// since the next call of the tool may differ entirely.
    pub(super) fn for_session(gate: &ToolGate, key: &CallKey) -> Self {
        let writes_files = match &gate.effects {
            Effects::Unknown => false,
            Effects::Known { list } => list.iter().all(|effect| match effect {
                Effect::Reads { .. } | Effect::Writes { .. } => true,
                Effect::Executes { .. } | Effect::Network { .. } | Effect::LeavesContext { .. } => false,
            }),
        };
        if writes_files { Self::Tool(gate.call.name.clone()) } else { Self::Exact(key.clone()) }
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Tool(name) => format!("every call of `{name}`"),
            Self::Exact(_) => "exactly this call".to_owned(),
        }
    }
}

/// Bytes that are equal only for equal calls: directory, tool, arguments, executed commands, and the present
/// content of programs and scripts of the workspace named in the arguments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallKey(pub(super) Vec<u8>);

impl CallKey {
    /// Digest of what an answer to a parked call is about, as hexadecimal text: the bytes, and the effects, connections
    /// and session of the call. A worker that would run the call in another way asks again.
    pub(super) fn parked_digest(
        &self,
        effects: &Effects,
        connections: Option<&Connections>,
        session: Option<&SessionId>,
    ) -> serde_json::Result<String> {
        let shown = serde_json::to_vec(&(effects, connections, session))?;
        let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
        digest.update(&(self.0.len() as u64).to_be_bytes());
        digest.update(&self.0);
        digest.update(&shown);
        Ok(digest.finish().as_ref().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }))
    }

    /// Key of a call, computed off the async threads; `None` if it is ambiguous.
    pub(super) async fn of(gate: &ToolGate, cx: &Cx) -> Option<Self> {
        let files = cx.service::<dyn Files>();
        let (cwd, tool, args) = (gate.place.cwd.clone(), gate.call.name.clone(), exact_args(gate));
        let effects = gate.effects.clone();
        let runs = other_commands(gate);
        let made = move || {
            let scripts = match &files {
                Some(files) => named_scripts(files.as_ref(), &cwd, &args, &effects).ok()?,
                None => None,
            };
            call_bytes(&cwd, &tool, &args, runs.as_ref(), scripts.as_ref())
        };
        tokio::task::spawn_blocking(made).await.ok()?.map(Self)
    }
}

/// Arguments that identify a call: all but the model's reason for leaving the sandbox, which differs each
/// time.
pub(super) fn exact_args(gate: &ToolGate) -> Value {
    let mut args = gate.args.clone();
    if gate.effects.leaves_context()
        && let Some(reason) = args.pointer_mut("/outside/reason")
    {
        *reason = Value::Null;
    }
    args
}

/// Commands of a call besides the one in its arguments, as JSON: the host may run a line before it, which is
/// part of the approval.
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
