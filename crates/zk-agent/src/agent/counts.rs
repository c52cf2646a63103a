use std::sync::atomic::Ordering;

use zk_core::model::Spent;

use crate::Agent;

/// Counts of an agent over all its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AgentCounts {
    /// Amount spent of the budget in the present session; nothing is counted without a budget.
    pub spent: Option<Spent>,
    /// Number of sub-agents that the agent started: their names have numbers.
    pub sub_agents: u32,
}

impl Agent {
    /// Returns what this agent has counted so far, for another one that goes on with its conversation.
    #[must_use]
    pub fn counts(&self) -> AgentCounts {
        AgentCounts {
            spent: self.inner.ledger.as_ref().map(|ledger| ledger.spent()),
            sub_agents: self.inner.sub_agents.load(Ordering::Acquire),
        }
    }

    /// Goes on counting from what the agent before has counted in this conversation.
    pub fn continue_counts(&self, before: AgentCounts) {
        if let (Some(ledger), Some(spent)) = (&self.inner.ledger, before.spent) {
            ledger.restore(spent);
        }
        self.inner.sub_agents.fetch_max(before.sub_agents, Ordering::AcqRel);
    }
}
