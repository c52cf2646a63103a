use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use zk_core::events::{BudgetMode, Ruling, ToolBudgetExceeded, ToolGate};
use zk_core::kernel::{Answer, Cx, Handler};
use zk_core::model::Message;

use crate::lock::lock;
use crate::run::RunShared;
use crate::{OnExceed, ToolBudget, Verdict};

/// Refuses calls over their tool's budget, or asks the model to finish.
pub(super) struct Budgets {
    budgets: BTreeMap<String, ToolBudget>,
    run: Arc<RunShared>,
    /// Tools about whose budget the model was already told in this run.
    steered: Mutex<BTreeSet<String>>,
}

impl Budgets {
    pub(super) fn new(budgets: BTreeMap<String, ToolBudget>, run: Arc<RunShared>) -> Self {
        Self { budgets, run, steered: Mutex::default() }
    }
}

impl Handler<ToolGate> for Budgets {
    async fn call(&self, gate: &ToolGate, cx: &Cx) -> Answer<ToolGate> {
        let tool = &gate.call.name;
        let Some(budget) = self.budgets.get(tool).filter(|_| !gate.is_decided() && self.run.owns(cx)) else {
            return Ok(None);
        };
        // The live count includes approved calls of this batch, which the event's count does not.
        let count = self.run.counts().get(tool).copied().unwrap_or(0);
        if count < budget.max {
            return Ok(None);
        }
        let Verdict { mode, message } = match &budget.on_exceed {
            OnExceed::Block => Verdict {
                mode: BudgetMode::Block,
                message: format!(
                    "`{}` was called {count} times in this run, its limit is {}; go on without it",
                    gate.call.display_name, budget.max
                ),
            },
            OnExceed::Steer => Verdict {
                mode: BudgetMode::Steer,
                message: format!(
                    "`{}` was called {count} times in this run. Come to a conclusion with what you have.",
                    gate.call.display_name
                ),
            },
            OnExceed::With(decide) => decide(tool, count),
        };
        let turn_id = gate.call.turn_id.clone();
        cx.emit(ToolBudgetExceeded { tool: tool.clone(), count, max: budget.max, turn_id, mode }).await?;
        match mode {
            BudgetMode::Block => Ok(Some(Ruling::Refuse(message))),
            BudgetMode::Steer => {
                if lock(&self.steered).insert(tool.clone()) {
                    self.run.queue_nudge(Message::injected(message, "tool-budget").shared());
                }
                Ok(None)
            }
        }
    }
}
