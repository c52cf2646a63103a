//! The harness's own gates. They run after the consumers' in this order: allowed tools, budgets, repeated
//! calls; each does nothing once a call is decided, nor to the calls
//! of other runs on the same bus.

mod allowed;
mod budget;
mod dedup;

use std::sync::Arc;

use zk_core::events::ToolGate;
use zk_core::kernel::{HookOptions, Reach, Scope, Stage};

use crate::Behavior;
use crate::agent::AgentInner;
use crate::shared::RunShared;

pub(crate) use dedup::{DedupMemory, call_key};

pub(crate) fn install(scope: &Scope, behavior: &Behavior, run: &Arc<RunShared>, agent: &Arc<AgentInner>) {
    // A sub-agent has gates of its own, for its own run.
    let at = HookOptions { stage: Stage::Framework, reach: Some(Reach::Own), ..HookOptions::default() };
    if let Some(names) = &behavior.allowed_tools {
        let gate = Arc::new(allowed::AllowedTools::new(names, run.clone()));
        scope.handle_at::<ToolGate, _>(at, gate);
    }
    if !behavior.tool_budgets.is_empty() {
        let gate = Arc::new(budget::Budgets::new(behavior.tool_budgets.clone(), run.clone()));
        scope.handle_at::<ToolGate, _>(at, gate);
    }
    if !behavior.dedup_tools.is_empty() {
        let gate =
            Arc::new(dedup::Dedup::new(behavior.dedup_tools.clone(), Arc::downgrade(agent), run.clone()));
        scope.handle_at::<ToolGate, _>(at, gate);
    }
}
