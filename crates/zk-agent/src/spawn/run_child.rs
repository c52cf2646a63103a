//! Sub-agents that are runs of their own: in a leg, those in the background.

use std::sync::Arc;

use serde_json::json;
use zk_core::events::SpawnBefore;
use zk_core::kernel::EmitError;
use zk_core::model::{Budget, Display, RunId, ToolError, ToolErrorKind, ToolOutput};
use zk_core::service::{ChildRun, ChildRuns, ChildRunsError, Leg, StoreError, ToolCx, WithinLeg};

use super::SpawnOptions;
use super::tool::{Args, SpawnTool};
use crate::agent::AgentInner;
use crate::run::LegLedger;

/// Returns the starter of runs, if sub-agents in the background of this run are runs of their own.
///
/// # Errors
/// Inside of a call of a leg, where a sub-agent in the background would end with the leg.
pub(super) fn run_starter(cx: &ToolCx) -> Result<Option<Arc<dyn ChildRuns>>, ToolError> {
    if cx.cx.service::<WithinLeg>().is_some() {
        return Err(ToolError::invalid(
            "a sub-agent inside of a call starts none in the background here; delegate without `background`",
        ));
    }
    if cx.cx.service::<Leg>().is_none() {
        return Ok(None);
    }
    let none = || ToolError::invalid("sub-agents do not work in the background of this worker's runs");
    cx.cx.service::<dyn ChildRuns>().ok_or_else(none).map(Some)
}

impl SpawnTool {
    /// Submits the task as a run of its own, whose result comes as mail.
    pub(super) async fn start_run(
        &self,
        runs: &dyn ChildRuns,
        args: Args,
        cx: &ToolCx,
    ) -> Result<ToolOutput, ToolError> {
        let Args { task, agent, context, turns, isolation, .. } = args;
        if agent.is_some_and(|agent| !agent.is_empty()) || isolation.is_some() {
            return Err(ToolError::invalid(
                "a sub-agent in the background is a run of its own here, with this agent's tools and directory: leave out `agent` \
                 and `isolation`, or delegate without `background`",
            ));
        }
        let parent = self.parent.upgrade().ok_or_else(|| ToolError::failed("the parent agent is gone"))?;
        let (history, run, model) = {
            let state = parent.state();
            (state.history.clone(), state.current.upgrade(), state.model.reference())
        };
        let turn =
            run.and_then(|run| run.present_turn().1).ok_or_else(|| ToolError::failed("there is no turn"))?;
        let begins_with = context.messages(&history, turns)?;
        let child = runs.run_of(&turn, &cx.call_id);
        let before = SpawnBefore {
            child: child.to_string(),
            call_id: cx.call_id.clone(),
            depth: parent.bus.origin().depth + 1,
            prompt: task.clone(),
            model,
            background: true,
        };
        cx.cx.emit(before).await.map_err(|error| match error {
            EmitError::Cancelled { .. } => ToolError::new(ToolErrorKind::Aborted, error.to_string()),
            EmitError::Hook(_) => ToolError::failed(error.to_string()),
        })?;
        let allotment = reserve_allotment(&parent, &child, cx).await?;
        let SpawnOptions { max_depth, max_total: max_children, .. } = self.options;
        let (call, cwd) = (cx.call_id.clone(), cx.cwd.clone());
        let new = ChildRun { turn, call, task, begins_with, cwd, max_depth, max_children, allotment };
        let run = match runs.start(new).await {
            Ok(run) => run,
            Err(error @ (ChildRunsError::TooDeep { .. } | ChildRunsError::TooMany { .. })) => {
                take_back_allotment(&parent, &child, cx).await?;
                return Err(ToolError::new(ToolErrorKind::Denied, error.to_string()));
            }
            // The child may exist, and spend what is reserved for it.
            Err(ChildRunsError::Failed(why)) => {
                return Err(ToolError::failed(format!("no run was started: {why}")));
            }
        };
        let text = format!(
            "{run} works on it as a run of its own. You are told its result once, also after your answer."
        );
        let details = json!({"child": run, "background": true});
        let line = Display::Line { text: format!("{run} as a run of its own") };
        Ok(ToolOutput { details: Some(details), ..ToolOutput::text(text).with_display(line) })
    }
}

/// Reserves a part of the run's budget for a child, and records it before the child can spend any. A child that has a
/// part already keeps it.
async fn reserve_allotment(
    parent: &Arc<AgentInner>,
    child: &RunId,
    cx: &ToolCx,
) -> Result<Budget, ToolError> {
    let Some(ledger) = cx.cx.service::<LegLedger>() else { return Ok(Budget::default()) };
    let used_up = || {
        ToolError::new(
            ToolErrorKind::Denied,
            "too little of the budget is left for another run; do this task yourself",
        )
    };
    let (allotment, is_new) = ledger.0.allot(child).ok_or_else(used_up)?;
    if !is_new {
        return Ok(allotment);
    }
    ledger.store(&cx.cx, &parent.bus).await.map_err(|error| {
        ledger.0.drop_allotment(child);
        not_recorded(&error)
    })?;
    Ok(allotment)
}

/// Takes back the part of a child that was refused, also in the session.
async fn take_back_allotment(parent: &Arc<AgentInner>, child: &RunId, cx: &ToolCx) -> Result<(), ToolError> {
    let Some(ledger) = cx.cx.service::<LegLedger>() else { return Ok(()) };
    if !ledger.0.drop_allotment(child) {
        return Ok(());
    }
    ledger.store(&cx.cx, &parent.bus).await.map_err(|error| not_recorded(&error))
}

fn not_recorded(error: &StoreError) -> ToolError {
    ToolError::failed(format!("the session cannot record the budget of a run: {error}"))
}
