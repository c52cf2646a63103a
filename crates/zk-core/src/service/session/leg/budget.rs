use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Budget, RunId, Spent};

/// Kind of the plugin entry that holds a [`RunBudgetStep`].
pub const RUN_BUDGET_ENTRY: &str = "run-budget";

/// Change of the budget of a run that outlives its worker, in its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum RunBudgetStep {
    /// A person set the budget of the run.
    Set {
        /// The whole budget, not an addition.
        budget: Budget,
    },
    /// A part of it was reserved for a child run.
    Reserved {
        /// Id of the child.
        run: RunId,
        /// Amount that the child may spend.
        most: Spent,
    },
    /// A child ended and returned the rest of its part.
    Returned {
        /// Id of the child.
        run: RunId,
        /// Amount that the child has spent.
        spent: Spent,
    },
}

/// Budget of a run that outlives its worker, as its session records it.
///
/// ```
/// use zk_core::model::{Budget, Spent};
/// use zk_core::service::{RunBudget, RunBudgetStep};
///
/// let (run, tokens) = (|| "r_child".into(), |tokens| Spent { usd: 0.0, tokens });
/// let mut budget = RunBudget::default();
/// budget.apply(RunBudgetStep::Set { budget: Budget::tokens(1_000) });
/// budget.apply(RunBudgetStep::Reserved { run: run(), most: tokens(400) });
/// assert_eq!(budget.held().tokens, 400);
/// budget.apply(RunBudgetStep::Returned { run: run(), spent: tokens(150) });
/// assert_eq!((budget.held().tokens, budget.spent_by_children().tokens), (0, 150));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunBudget {
    /// The whole budget, once it was set for the run.
    pub limit: Option<Budget>,
    /// Amount that the run itself has spent.
    pub spent: Spent,
    /// Children that a part was reserved for, with the amount that each may spend, or has spent.
    pub children: BTreeMap<RunId, ChildBudget>,
}

/// Part of a budget that a child run has or had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChildBudget {
    /// The child may spend this much.
    Reserved(Spent),
    /// The child has ended, and spent this much.
    Returned(Spent),
}

impl RunBudget {
    /// Applies a change. A part is reserved once, and returned once.
    pub fn apply(&mut self, step: RunBudgetStep) {
        match step {
            RunBudgetStep::Set { budget } => self.limit = Some(budget),
            RunBudgetStep::Reserved { run, most } => {
                self.children.entry(run).or_insert(ChildBudget::Reserved(most));
            }
            RunBudgetStep::Returned { run, spent } => {
                if let Some(child @ ChildBudget::Reserved(_)) = self.children.get_mut(&run) {
                    *child = ChildBudget::Returned(spent);
                }
            }
        }
    }

    /// Returns the amount that is reserved for children that have not ended.
    #[must_use]
    pub fn held(&self) -> Spent {
        self.sum(|child| match child {
            ChildBudget::Reserved(most) => Some(*most),
            ChildBudget::Returned(_) => None,
        })
    }

    /// Returns the amount that ended children have spent.
    #[must_use]
    pub fn spent_by_children(&self) -> Spent {
        self.sum(|child| match child {
            ChildBudget::Reserved(_) => None,
            ChildBudget::Returned(spent) => Some(*spent),
        })
    }

    fn sum(&self, amount: impl Fn(&ChildBudget) -> Option<Spent>) -> Spent {
        self.children.values().filter_map(amount).fold(Spent::default(), |sum, one| sum + one)
    }
}
