//! Cost and work of a turn, counted and announced.

use std::sync::Arc;

use zk_core::events::{BudgetExceeded, MessagesCause, SessionOpenTurn, TurnAfter, UsageUpdate};
use zk_core::model::{AgentError, Message, Model, TurnUsage, Usage};
use zk_core::service::{ContextId, ContextWindow};

use crate::OutputBudget;
use crate::budget::Hold;
use crate::driver::Driver;
use crate::turn::Turn;

/// Bytes of text that a token has, or some more.
const BYTES_OF_A_TOKEN: u64 = 3;

/// Usage of the attempts at one response: those that are followed by another may be billed as well.
pub(crate) struct Attempts<'a> {
    model: &'a Model,
    earlier: Usage,
    current: Usage,
    /// Amount held for what the attempts may cost; charged with what they did.
    hold: Option<Hold>,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(model: &'a Model, hold: Option<Hold>) -> Self {
        Self { model, earlier: Usage::default(), current: Usage::default(), hold }
    }

    pub(crate) fn model(&self) -> &'a Model {
        self.model
    }

    /// Sets the usage of the whole current attempt so far.
    pub(crate) fn count(&mut self, usage: Usage) {
        self.current = usage;
    }

    /// Begins to count another attempt.
    ///
    /// # Errors
    /// When the budget has no room for it beside what the last one cost.
    pub(crate) fn begin_next(&mut self) -> Result<(), AgentError> {
        self.charge();
        self.earlier = self.total();
        self.current = Usage::default();
        self.hold.as_ref().map_or(Ok(()), Hold::check_again)
    }

    fn charge(&self) {
        if let Some(hold) = &self.hold {
            hold.charge(self.model, &self.current);
        }
    }

    /// The usage of all of them. Each has its own price, since one depends on how much one request read.
    pub(crate) fn total(&self) -> Usage {
        if self.earlier == Usage::default() {
            return self.current;
        }
        let billed = |usage: Usage| Usage {
            billed: self.model.cost(&usage).map(|dollars| (dollars * 1e9).round() as u64),
            ..usage
        };
        let mut total = billed(self.earlier);
        total += billed(self.current);
        total.last_read = Some(self.current.context());
        total
    }
}

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        self.charge();
    }
}

impl Driver {
    /// Counts what a response cost.
    pub(crate) fn account(&self, turn: &Turn, usage: Usage) -> TurnUsage {
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

    /// Has an answer with calls kept before any of them runs.
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

    /// The bytes that the results of this turn may have together.
    fn output_budget(&self, turn: &Turn) -> Option<usize> {
        match self.behavior.tool_output_budget? {
            OutputBudget::Bytes(bytes) => Some(bytes),
            OutputBudget::OfWindow { percent } => {
                let (window, context) =
                    turn.cx.service::<dyn ContextWindow>().zip(turn.cx.service::<ContextId>())?;
                let fill = window.fill(&context)?;
                let left = fill.usable?.saturating_sub(fill.estimate);
                let bytes = left.saturating_mul(BYTES_OF_A_TOKEN).saturating_mul(percent.into()) / 100;
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
        self.commit(self.turns(vec![message], MessagesCause::Harness)).await?;
        let exceeded = BudgetExceeded { turn: turn.number, turn_id: turn.id.clone(), bytes, budget };
        Ok(turn.cx.emit(exceeded).await?)
    }
}
