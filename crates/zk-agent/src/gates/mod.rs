//! Gates of the harness. They run after those of plugins in this order: allowed tools, budgets, repeated
//! calls, unguarded calls, lazy tools. Each ignores calls that are already decided, and calls of other runs
//! on the same bus.

mod budget;
mod dedup;

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use zk_core::events::{Offer, Ruling, ToolGate};
use zk_core::kernel::{Answer, Cx, Handler, HookOptions, Reach, Scope, Stage};
use zk_core::service::Tool;

use crate::Behavior;
use crate::agent::AgentInner;
use crate::run::RunShared;
use crate::tools::is_guarded;
use crate::turn::OUTPUT_TOOL;

pub(crate) use dedup::{DedupMemory, call_key};

pub(crate) fn install(scope: &Scope, behavior: &Behavior, run: &Arc<RunShared>, agent: &Arc<AgentInner>) {
    // A sub-agent has gates for its own runs.
    let at = HookOptions { stage: Stage::Framework, reach: Some(Reach::Own), ..HookOptions::default() };
    if let Some(names) = &behavior.allowed_tools {
        let gate = Arc::new(AllowedTools::new(names, run.clone()));
        scope.handle_at::<ToolGate, _>(at, gate);
    }
    if !behavior.tool_budgets.is_empty() {
        let gate = Arc::new(budget::Budgets::new(behavior.tool_budgets.clone(), run.clone()));
        scope.handle_at::<ToolGate, _>(at, gate);
    }
    if !behavior.dedup_tools.is_empty() {
        let gate =
            Arc::new(dedup::Dedup::new(behavior.dedup_tools.clone(), agent.dedup.clone(), run.clone()));
        scope.handle_at::<ToolGate, _>(at, gate);
    }
    if !agent.is_unguarded {
        scope.handle_at::<ToolGate, _>(at, Arc::new(Unguarded { run: run.clone() }));
    }
    let lazy = LazyTools { run: run.clone(), agent: Arc::downgrade(agent) };
    scope.handle_at::<ToolGate, _>(at, Arc::new(lazy));
}

/// Names of the tools with which a model finds and unlocks lazy tools, as plugins register them.
const FINDERS: [&str; 2] = ["load_tools", "tool_search"];

/// Gate that refuses calls of lazy tools that the run has not unlocked.
struct LazyTools {
    run: Arc<RunShared>,
    agent: Weak<AgentInner>,
}

impl Handler<ToolGate> for LazyTools {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        let offer = |tool: &Arc<dyn Tool>| self.run.offer(&gate.call.name, tool.spec().disclosure);
        let is_lazy = gate.tool.as_ref().is_some_and(|tool| offer(tool) == Offer::Lazy);
        let is_locked = is_lazy && !self.run.unlocked().contains(&gate.call.name);
        if !is_locked || gate.is_decided() || !self.run.owns(cx) {
            return Ok(None);
        }
        let is_offered = |name: &&str| {
            let tool = cx.item::<dyn Tool>(name);
            tool.is_some_and(|tool| self.run.offer(name, tool.spec().disclosure) == Offer::Always)
        };
        let finder = self.agent.upgrade().zip(FINDERS.into_iter().find(is_offered));
        let with =
            finder.map_or(String::new(), |(agent, finder)| format!(" with `{}`", agent.aliases.wire(finder)));
        Ok(Some(Ruling::refuse(format!(
            "`{}` is not among the tools of this request; search for it first{with}, then call it with the \
             arguments it asks for",
            gate.call.display_name
        ))))
    }
}

/// Gate that refuses calls with more effects than their tool declares for empty arguments, if no permission
/// gate decides about them.
struct Unguarded {
    run: Arc<RunShared>,
}

impl Handler<ToolGate> for Unguarded {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        let may_run = gate.tool.is_none() || gate.effects.is_read_only() || is_guarded(cx.bus());
        if may_run || gate.is_decided() || !self.run.owns(cx) {
            return Ok(None);
        }
        Ok(Some(Ruling::refuse(format!(
            "this call of `{}` would do more than read, and nobody is here to decide on it; go on without it, or \
             tell the user that a permission gate is missing",
            gate.call.display_name
        ))))
    }
}

/// Gate that refuses calls of all tools that are not on the list.
struct AllowedTools {
    names: BTreeSet<String>,
    run: Arc<RunShared>,
}

impl AllowedTools {
    fn new(names: &[String], run: Arc<RunShared>) -> Self {
        Self { names: names.iter().cloned().chain([OUTPUT_TOOL.to_owned()]).collect(), run }
    }
}

impl Handler<ToolGate> for AllowedTools {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        if gate.is_decided() || !self.run.owns(cx) || self.names.contains(&gate.call.name) {
            return Ok(None);
        }
        let names: Vec<&str> =
            self.names.iter().map(String::as_str).filter(|name| *name != OUTPUT_TOOL).collect();
        let reason =
            format!("`{}` is not allowed here; allowed are: {}", gate.call.display_name, names.join(", "));
        Ok(Some(Ruling::Refuse(reason)))
    }
}
