use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::model::{Approved, Display, Effects, ToolError, ToolErrorKind, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Tool, ToolCx};

use super::protocol::{PermissionOption, PermissionParams};
use super::session::{AcpSession, Place};

/// Tool call that is judged by zk's gates and carried out by the agent.
pub(crate) struct AskedCall {
    spec: Arc<ToolSpec>,
    effects: Effects,
    preview: Option<Display>,
}

impl AskedCall {
    /// Creates a call under the name of zk's equivalent tool, so that rules about this tool apply.
    pub(crate) fn new(tool: String, effects: Effects, preview: Option<Display>) -> Self {
        let spec = ToolSpec::new(tool, "A call of another agent.", json!({ "type": "object" }));
        Self { spec, effects, preview }
    }

    /// Passes the call through zk's gates.
    ///
    /// # Errors
    /// [`ToolError`] when the call may not run.
    pub(crate) async fn approve(self, args: Value, place: &Place) -> Result<Approved, ToolError> {
        let cx = ToolCx::new(place.cx.clone(), place.cwd.clone());
        let stop = place.cx.stop_token();
        let asking = cx.approve(Arc::new(self), args);
        tokio::select! {
            decided = asking => decided,
            () = stop.cancelled() => Err(ToolError::new(ToolErrorKind::Aborted, "the run was stopped")),
        }
    }
}

#[async_trait]
impl Tool for AskedCall {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        self.effects.clone()
    }

    async fn preview(&self, _: &Value, _: &CallPlace) -> Option<Display> {
        self.preview.clone()
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Err(ToolError::failed("another agent runs this call itself"))
    }
}

/// Answers a permission request of the agent by zk's gates: the permission mode, the rules and the person.
pub(crate) async fn answer(
    agent: &str,
    outside: bool,
    session: &AcpSession,
    params: PermissionParams,
) -> Value {
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    let Some(place) = session.active_place() else { return cancelled };
    let step = session.step_of_request(params.tool_call);
    let (tool, effects) = step.effects(agent, outside);
    let call = AskedCall::new(tool, effects, step.preview());
    let decided = call.approve(step.args_for_question(agent), &place).await;
    if session.is_cancelled() || place.cx.is_stopped() {
        return cancelled;
    }
    let kinds: &[&str] = match decided {
        // Options that allow later calls, too, are never chosen.
        Ok(_) => &["allow_once"],
        Err(_) => &["reject_once", "reject_always"],
    };
    let has_kind = |kind: &&str| params.options.iter().find(|option| option.kind == *kind);
    match kinds.iter().find_map(has_kind) {
        Some(PermissionOption { option_id, .. }) => {
            json!({ "outcome": { "outcome": "selected", "optionId": option_id } })
        }
        None => cancelled,
    }
}
