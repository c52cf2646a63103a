use std::sync::atomic::Ordering;

use zk_core::model::Spent;

use crate::Agent;

/// Budget and number of sub-agents that an agent has used in all runs, to start an agent that continues the same
/// conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AgentCounts {
    /// Amount spent in the current session; `None` if the agent has no budget.
    pub spent: Option<Spent>,
    /// Number of sub-agents that the agent has named; their names end with numbers up to this one.
    pub sub_agents: u32,
}

impl Agent {
    /// Returns the agent's totals, for another agent that continues its conversation.
    #[must_use]
    pub fn counts(&self) -> AgentCounts {
        AgentCounts {
            spent: self.inner.ledger.as_ref().map(|ledger| ledger.spent()),
            sub_agents: self.inner.sub_agents.load(Ordering::Acquire),
        }
    }

    /// Continues the totals of the agent that had this conversation before.
    pub fn continue_counts(&self, before: AgentCounts) {
        if let (Some(ledger), Some(spent)) = (&self.inner.ledger, before.spent) {
            ledger.restore_spent(spent);
        }
        self.inner.sub_agents.fetch_max(before.sub_agents, Ordering::AcqRel);
    }
}
