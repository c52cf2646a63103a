//! Counts and announces the usage of turns.

use std::sync::Arc;

use zk_core::events::{BudgetExceeded, MessagesCause, SessionOpenTurn, TurnAfter, UsageUpdate};
use zk_core::model::{AgentError, Message, TurnUsage, Usage};
use zk_core::service::{ContextId, ContextWindow};

use super::sequence::Turn;
use crate::OutputBudget;
use crate::run::RunState;

/// Conservative estimate of the bytes of text per token.
const BYTES_PER_TOKEN: u64 = 3;

impl RunState {
    /// Adds a response's usage to the statistics, and returns it with its cost.
    pub(crate) fn account_usage(&self, turn: &Turn, usage: Usage) -> TurnUsage {
        let cost = self.model.cost(&usage);
        let usage = TurnUsage { turn_id: turn.id.clone(), model: self.model.reference(), usage, cost };
        self.shared.stats().add_turn(usage.clone());
        usage
    }

    pub(crate) async fn announce_after(
        &self,
        turn: &Turn,
        usage: &TurnUsage,
        message: Option<&Arc<Message>>,
        error: Option<String>,
    ) -> Result<(), AgentError> {
        let after = TurnAfter {
            turn_id: turn.id.clone(),
            turn: turn.number,
            usage: usage.usage,
            cost: usage.cost,
            message: message.cloned(),
            error,
            tool_counts: Arc::new(self.shared.counts().clone()),
        };
        Ok(turn.cx.emit(after).await?)
    }

    /// Announces an answer with calls, so that it is stored before any of them runs.
    pub(crate) async fn announce_open_turn(
        &self,
        turn: &Turn,
        message: &Arc<Message>,
        usage: &TurnUsage,
    ) -> Result<(), AgentError> {
        let open = || SessionOpenTurn {
            run_id: self.shared.id.clone(),
            turn_id: turn.id.clone(),
            message: message.clone(),
            usage: usage.clone(),
        };
        Ok(turn.cx.emit_with(open).await?)
    }

    pub(crate) async fn announce_usage(&self, turn: &Turn, usage: TurnUsage) -> Result<(), AgentError> {
        let (total, cost) = {
            let stats = self.shared.stats();
            (stats.usage, stats.cost)
        };
        Ok(turn.cx.emit(UsageUpdate { turn: usage, total, cost }).await?)
    }

    /// Returns the size limit for all results of this turn in bytes, if there is one.
    fn output_budget(&self, turn: &Turn) -> Option<usize> {
        match self.behavior.tool_output_budget? {
            OutputBudget::Bytes(bytes) => Some(bytes),
            OutputBudget::OfWindow { percent } => {
                let (window, context) =
                    turn.cx.service::<dyn ContextWindow>().zip(turn.cx.service::<ContextId>())?;
                let fill = window.fill(&context)?;
                let left = fill.usable?.saturating_sub(fill.estimate);
                let bytes = left.saturating_mul(BYTES_PER_TOKEN).saturating_mul(percent.into()) / 100;
                usize::try_from(bytes).ok()
            }
        }
    }

    pub(crate) async fn check_output_budget(&self, turn: &Turn, bytes: usize) -> Result<(), AgentError> {
        let Some(budget) = self.output_budget(turn).filter(|budget| bytes > *budget) else { return Ok(()) };
        let text = format!(
            "The tool results of this turn were {bytes} bytes, over the budget of {budget}. \
             Write down what matters in them before calling more tools."
        );
        let message = Message::injected(text, "tool-output-budget").shared();
        self.commit(self.messages_commit(vec![message], MessagesCause::Harness)).await?;
        let exceeded = BudgetExceeded { turn: turn.number, turn_id: turn.id.clone(), bytes, budget };
        Ok(turn.cx.emit(exceeded).await?)
    }
}
