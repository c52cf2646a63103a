use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use zk_core::events::{Ruling, ToolGate};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Plugin, Reach, Scope, Stage};
use zk_core::model::CallId;
use zk_core::service::{Question, Tool, Ui, UiAnswer};

/// How long a person may think before the call is refused.
const PATIENCE: Duration = Duration::from_secs(600);

/// What may run without being asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PermissionMode {
    /// Read-only calls; for all others a person is asked, and without one they are refused.
    #[default]
    Ask,
    /// Everything.
    AllowAll,
}

/// Asks before a call that changes something, for the agent it is installed with and all of its descendants.
///
/// "Always" holds for that tool, in all agents of the tree, as long as this plugin lives. A handler that
/// rewrites the arguments of an approved call has it asked for again.
///
/// ```
/// use zk_core::kernel::Bus;
/// use zk_tools::{PermissionGate, PermissionMode};
///
/// let bus = Bus::new();
/// bus.install(&PermissionGate::new(PermissionMode::Ask)).unwrap();
/// ```
#[derive(Debug)]
pub struct PermissionGate {
    mode: PermissionMode,
    memory: Arc<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    always: Mutex<BTreeSet<String>>,
    /// One question at a time: agents that ask at once wait for each other.
    asking: tokio::sync::Mutex<()>,
    /// What each pending call was let through with.
    allowed: Mutex<HashMap<CallId, Value>>,
}

impl PermissionGate {
    /// The gate.
    #[must_use]
    pub fn new(mode: PermissionMode) -> Self {
        Self { mode, memory: Arc::default() }
    }
}

impl Plugin for PermissionGate {
    fn name(&self) -> &'static str {
        "permission"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        match self.mode {
            PermissionMode::AllowAll => {}
            PermissionMode::Ask => {
                let at = |stage| HookOptions {
                    stage,
                    reach: Some(Reach::Descendants),
                    time_limit: Some(PATIENCE),
                };
                scope.handle_at::<ToolGate, _>(at(Stage::Early), Arc::new(First(self.memory.clone())));
                scope.handle_at::<ToolGate, _>(at(Stage::Late), Arc::new(Again(self.memory.clone())));
            }
        }
        Ok(())
    }
}

/// Decides before anybody else.
struct First(Arc<Memory>);

impl Handler<ToolGate> for First {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        if gate.is_decided() {
            return Ok(None);
        }
        let ruling = self.0.judge(gate, cx).await;
        if ruling.is_none() {
            let mut allowed = self.0.allowed();
            // Calls that somebody else refused stay behind; to forget one too many only means to ask again.
            if allowed.len() >= 256 {
                allowed.clear();
            }
            allowed.insert(gate.call.call_id.clone(), gate.args.clone());
        }
        Ok(ruling)
    }
}

/// Decides anew what was rewritten in between.
struct Again(Arc<Memory>);

impl Handler<ToolGate> for Again {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        let allowed = self.0.allowed().remove(&gate.call.call_id);
        if gate.is_decided() || allowed.as_ref() == Some(&gate.args) {
            return Ok(None);
        }
        Ok(self.0.judge(gate, cx).await)
    }
}

impl Memory {
    async fn judge(&self, gate: &ToolGate, cx: &Cx) -> Option<Ruling> {
        let name = &gate.call.name;
        // The loop tells the model that there is no such tool.
        let tool = cx.item::<dyn Tool>(name)?;
        if tool.read_only(&gate.args) || self.always().contains(name) {
            return None;
        }
        let shown = &gate.call.display_name;
        let Some(person) = cx.service::<dyn Ui>().filter(|ui| ui.is_interactive()) else {
            return Some(Ruling::refuse(format!(
                "`{shown}` changes things and nobody is here to approve it; to allow it, run zk with --allow-all, or \
                 start it on a terminal to be asked"
            )));
        };
        let _turn = self.asking.lock().await;
        // Somebody may have said "always" while this one waited.
        if self.always().contains(name) {
            return None;
        }
        let origin = cx.origin();
        let question = Question::Approve {
            agent: origin.agent.to_string(),
            depth: origin.depth,
            tool: name.clone(),
            summary: tool.summary(&gate.args),
            args: gate.args.clone(),
        };
        match person.ask(question).await {
            UiAnswer::Yes => None,
            UiAnswer::Always => {
                self.always().insert(name.clone());
                None
            }
            UiAnswer::No { message: Some(message) } => {
                Some(Ruling::refuse(format!("the user declined this call: {message}")))
            }
            UiAnswer::No { message: None } => Some(Ruling::refuse(
                "the user declined this call; do not try it again, ask what to do instead",
            )),
            UiAnswer::Absent => Some(Ruling::refuse(
                "nobody answered whether this call may run; it was not the user who declined it",
            )),
            UiAnswer::Choice(_) | UiAnswer::Text(_) => {
                Some(Ruling::refuse("the answer was neither yes nor no, so this call was not made"))
            }
        }
    }

    fn always(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.always.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allowed(&self) -> MutexGuard<'_, HashMap<CallId, Value>> {
        self.allowed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
