use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use zk_core::events::{AgentDone, BudgetOutcome, RunBudgetReached};
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Reach, Scope};
use zk_core::service::{ContextId, ContextMode, ContextProducer};

/// Context part that warns a model when the budget of its run is nearly used up, with each further request,
/// so that it can finish in time.
#[derive(Clone, Debug, Default)]
pub struct BudgetPart {
    near: Arc<Mutex<HashMap<Option<ContextId>, String>>>,
}

impl BudgetPart {
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<ContextId>, String>> {
        self.near.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plugin for BudgetPart {
    fn name(&self) -> &'static str {
        "budget-context"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let everywhere = HookOptions { reach: Some(Reach::Descendants), ..HookOptions::default() };
        let part = self.clone();
        scope.on_sync_at(everywhere, move |event: &RunBudgetReached, cx: &Cx| {
            let mut near = part.lock();
            match event.outcome {
                BudgetOutcome::Shortened { .. } => {
                    let left = event.budget.describe_shortage(event.spent, event.wanted);
                    let text = format!(
                        "The budget of this work is nearly used up: {left}. Begin nothing new; say in a few words what is \
                         done and what is left."
                    );
                    near.insert(super::context_id(cx), text);
                }
                BudgetOutcome::Raised { .. } | BudgetOutcome::Lifted => drop(near.remove(&super::context_id(cx))),
                BudgetOutcome::Asked | BudgetOutcome::Stopped => {}
            }
        });
        let part = self.clone();
        scope.on_sync_at(everywhere, move |_: &AgentDone, cx: &Cx| {
            drop(part.lock().remove(&super::context_id(cx)))
        });
        scope.provide::<dyn ContextProducer>("budget", Arc::new(self.clone()))?;
        Ok(())
    }
}

#[async_trait]
impl ContextProducer for BudgetPart {
    fn mode(&self) -> ContextMode {
        ContextMode::PerRequest
    }

    async fn text(&self, cx: &Cx) -> Result<Option<String>, BoxError> {
        Ok(self.lock().get(&super::context_id(cx)).cloned())
    }
}
