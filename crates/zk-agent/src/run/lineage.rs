use std::collections::BTreeMap;
use std::sync::Arc;

use zk_core::kernel::Cx;
use zk_core::service::{Leg, WithinLeg};

use crate::budget::BudgetChain;
use crate::{ToolBudget, ToolSet};

/// Limits on the tools of a run, as a service of its context, so that sub-agents inherit them.
#[derive(Clone, Debug)]
pub(crate) struct RunLimits {
    pub(crate) tools: ToolSet,
    pub(crate) allowed_tools: Option<Vec<String>>,
    pub(crate) tool_budgets: BTreeMap<String, ToolBudget>,
}

/// Ids and budgets of a run's ancestors, as a service of a sub-agent's context.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineage {
    runs: Vec<Arc<str>>,
    /// Budgets of the run that started this one, and of that run's ancestors.
    budgets: Option<Arc<BudgetChain>>,
    /// Whether the run is inside of a call of a leg.
    is_within_leg: bool,
}

impl Lineage {
    pub(crate) fn of(cx: &Cx) -> Option<Arc<Self>> {
        cx.service::<Self>()
    }

    /// Returns the lineage of a run that is started in the context `cx`.
    pub(crate) fn of_child_run(cx: &Cx) -> Self {
        let mut runs = Self::of(cx).map(|above| above.runs.clone()).unwrap_or_default();
        runs.push(cx.run_id().into());
        let is_within_leg = cx.service::<Leg>().is_some() || cx.service::<WithinLeg>().is_some();
        Self { runs, budgets: cx.service::<BudgetChain>(), is_within_leg }
    }

    pub(crate) fn is_within_leg(&self) -> bool {
        self.is_within_leg
    }

    pub(crate) fn budgets(&self) -> Option<&BudgetChain> {
        self.budgets.as_deref()
    }

    pub(crate) fn contains(&self, run: &Arc<str>) -> bool {
        self.runs.contains(run)
    }
}
