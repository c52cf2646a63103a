//! The harness's own gates. They run after the consumers' in this order: allowed tools, budgets, repeated
//! calls; each does nothing once a call is decided, nor to the calls
//! of other runs on the same bus.

mod allowed;
mod budget;
mod dedup;

use std::sync::Arc;

use zk_core::events::ToolGate;
use zk_core::kernel::{Scope, Stage};

use crate::Behavior;
use crate::agent::AgentInner;
use crate::shared::RunShared;

pub(crate) use dedup::{DedupMemory, call_key};

pub(crate) fn install(scope: &Scope, behavior: &Behavior, run: &Arc<RunShared>, agent: &Arc<AgentInner>) {
    if let Some(names) = &behavior.allowed_tools {
        let gate = Arc::new(allowed::AllowedTools::new(names, run.clone()));
        scope.handle_at::<ToolGate, _>(Stage::Framework, gate);
    }
    if !behavior.tool_budgets.is_empty() {
        let gate = Arc::new(budget::Budgets::new(behavior.tool_budgets.clone(), run.clone()));
        scope.handle_at::<ToolGate, _>(Stage::Framework, gate);
    }
    if !behavior.dedup_tools.is_empty() {
        let gate =
            Arc::new(dedup::Dedup::new(behavior.dedup_tools.clone(), Arc::downgrade(agent), run.clone()));
        scope.handle_at::<ToolGate, _>(Stage::Framework, gate);
    }
}
