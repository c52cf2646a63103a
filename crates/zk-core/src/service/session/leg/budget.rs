use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Budget, RunId, Spent};
use crate::service::{Entry, EntryKind};

/// Kind of the plugin entry that holds a [`StoredRunBudget`]. The last one of a run counts.
pub const RUN_BUDGET_ENTRY: &str = "run-budget";

/// Budget of a run in its session, whole after each change. A session may have several runs in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredRunBudget {
    /// Run that has the budget.
    pub of: RunId,
    /// The budget.
    #[serde(flatten)]
    pub budget: RunBudget,
}

/// Budget of a run that outlives its worker.
///
/// ```
/// use zk_core::model::{Budget, Spent};
/// use zk_core::service::{ChildBudget, RunBudget};
///
/// let mut budget = RunBudget { limit: Some(Budget::tokens(1_000)), ..RunBudget::default() };
/// budget.children.insert("r_child".into(), ChildBudget::Reserved(Spent { usd: 0.0, tokens: 400 }));
/// assert_eq!(budget.of_children().tokens, 400);
/// budget.children.insert("r_child".into(), ChildBudget::Returned(Spent { usd: 0.0, tokens: 150 }));
/// assert_eq!(budget.of_children().tokens, 150);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunBudget {
    /// The whole budget, if a person set one for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Budget>,
    /// Children that a part was reserved for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<RunId, ChildBudget>,
    /// Amount that the run itself has spent, which its turns record.
    #[serde(skip)]
    pub spent: Spent,
}

/// Sums up the cost of the turns and side calls that the entries of a session record.
///
/// ```
/// use zk_core::model::Spent;
/// use zk_core::service::spent_in;
///
/// assert_eq!(spent_in(&[]), Spent::default());
/// ```
#[must_use]
pub fn spent_in(entries: &[Entry]) -> Spent {
    let usages = entries.iter().filter_map(|entry| entry.kind.usage());
    usages.fold(Spent::default(), |sum, turn| {
        let tokens = turn.usage.read() + turn.usage.output;
        sum + Spent { usd: turn.cost.unwrap_or_default(), tokens }
    })
}

/// Part of a budget that a child run has or had.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildBudget {
    /// The child may spend this much.
    Reserved(Spent),
    /// The child has ended, and spent this much.
    Returned(Spent),
}

impl ChildBudget {
    /// Returns the amount that the parent cannot spend.
    #[must_use]
    pub fn amount(&self) -> Spent {
        match self {
            Self::Reserved(amount) | Self::Returned(amount) => *amount,
        }
    }
}

impl RunBudget {
    /// Returns the budget of `run` that the entries of its session hold last, without what the run itself has spent.
    ///
    /// ```
    /// use zk_core::service::RunBudget;
    ///
    /// assert_eq!(RunBudget::last_of(&"r_1".into(), &[]), None);
    /// ```
    #[must_use]
    pub fn last_of(run: &RunId, entries: &[Entry]) -> Option<Self> {
        entries.iter().rev().find_map(|entry| {
            let EntryKind::Custom(custom) = &entry.kind else { return None };
            let is_budget = custom.kind == RUN_BUDGET_ENTRY && custom.source == "zk-agent";
            let stored: StoredRunBudget = is_budget.then(|| custom.data.read().ok())??;
            (stored.of == *run).then_some(stored.budget)
        })
    }

    /// Returns the amount that is reserved for children or was spent by them.
    #[must_use]
    pub fn of_children(&self) -> Spent {
        self.children.values().fold(Spent::default(), |sum, child| sum + child.amount())
    }
}
