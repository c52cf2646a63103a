use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use zk_core::events::{BudgetOutcome, RunBudgetReached};
use zk_core::model::{AgentError, Budget, Model};
use zk_core::service::{Questions, Request, Selection, UiAnswer};

use super::ledger::{ReserveOutcome, Shortage};
use super::quote::request_bytes;
use super::{BudgetChain, Estimator, Quote, Reservation};
use crate::run::RunState;
use crate::turn::Turn;

/// Time limit for a person to decide about a budget.
const PATIENCE: Duration = Duration::from_secs(600);

impl RunState {
    /// Reserves the highest cost of `request`, and lowers its output limit if only a shorter answer can be
    /// paid. If even that does not fit, a person is asked; if none is present, the run ends.
    pub(crate) async fn reserve(
        &self,
        turn: &Turn,
        request: &mut Request,
    ) -> Result<Option<Reservation>, AgentError> {
        if self.spending.budgets.is_unlimited() {
            return Ok(None);
        }
        check_price(&self.spending.budgets, &self.model)?;
        let quote = Quote::new(&self.model, self.spending.estimator.max_input_tokens(request_bytes(request)));
        loop {
            match self.spending.budgets.reserve(&quote, request.max_tokens) {
                ReserveOutcome::Granted { reservation, max_tokens, shortened_by } => {
                    if let Some(shortage) = shortened_by {
                        request.max_tokens = max_tokens;
                        shortage.announce_outcome(turn, BudgetOutcome::Shortened { max_tokens }).await?;
                    }
                    return Ok(Some(reservation));
                }
                ReserveOutcome::Busy(shortage) => {
                    let freed = pin!(self.spending.budgets.wait_until_freed(
                        &shortage.ledger,
                        &quote,
                        request.max_tokens
                    ));
                    if let Either::Left(_) = select(pin!(turn.cx.stop_token().cancelled()), freed).await {
                        return Err(AgentError::Aborted);
                    }
                }
                ReserveOutcome::Short(shortage) => shortage.settle(turn).await?,
            }
        }
    }
}

/// Reserves the highest cost of a side call. If it does not fit, the side call fails, without a question or a
/// wait.
pub(crate) fn reserve_side_call(
    budgets: &BudgetChain,
    request: &mut Request,
) -> Result<Option<Reservation>, AgentError> {
    if budgets.is_unlimited() {
        return Ok(None);
    }
    check_price(budgets, &request.model)?;
    let quote = Quote::new(&request.model, Estimator::default().max_input_tokens(request_bytes(request)));
    match budgets.reserve(&quote, request.max_tokens) {
        ReserveOutcome::Granted { reservation, max_tokens, shortened_by: _ } => {
            request.max_tokens = max_tokens;
            Ok(Some(reservation))
        }
        ReserveOutcome::Busy(shortage) | ReserveOutcome::Short(shortage) => Err(shortage.into_error()),
    }
}

/// Fails for a model without known prices if a budget limits money.
fn check_price(budgets: &BudgetChain, model: &Model) -> Result<(), AgentError> {
    if model.prices.is_some() || !budgets.limits_money() {
        return Ok(());
    }
    let name = model.reference();
    Err(AgentError::Usage(format!(
        "the price of {name} is not known, so a budget in dollars cannot be kept: set its prices, or a budget in tokens"
    )))
}

impl Shortage {
    /// Settles an exhausted budget once for all agents that share it: a person may raise it. Fails if the run
    /// has to stop.
    async fn settle(self, turn: &Turn) -> Result<(), AgentError> {
        let cx = &turn.cx;
        let _asking = match select(pin!(cx.stop_token().cancelled()), pin!(self.ledger.asking.lock())).await {
            Either::Left(_) => return Err(AgentError::Aborted),
            Either::Right((asking, _)) => asking,
        };
        if self.ledger.has_room(self.wanted) {
            return Ok(());
        }
        let answer = if self.ledger.is_refused() { UiAnswer::Absent } else { self.ask_person(turn).await? };
        if cx.is_stopped() {
            return Err(AgentError::Aborted);
        }
        let to = match answer {
            UiAnswer::Choice { index: 0 } => self.ledger.raised_budget(self.wanted),
            UiAnswer::Choice { index: 1 } => Budget::default(),
            UiAnswer::Choice { .. }
            | UiAnswer::Once
            | UiAnswer::Session
            | UiAnswer::Always
            | UiAnswer::WiderSession
            | UiAnswer::WiderAlways
            | UiAnswer::MoreSession { .. }
            | UiAnswer::MoreAlways { .. }
            | UiAnswer::Contained
            | UiAnswer::No { .. }
            | UiAnswer::Text { .. }
            | UiAnswer::Absent => {
                self.ledger.mark_refused();
                self.announce_outcome(turn, BudgetOutcome::Stopped).await?;
                return Err(self.clone().into_error());
            }
        };
        self.ledger.set_budget(to);
        let outcome = if to.is_unlimited() { BudgetOutcome::Lifted } else { BudgetOutcome::Raised { to } };
        self.announce_outcome(turn, outcome).await
    }

    async fn ask_person(&self, turn: &Turn) -> Result<UiAnswer, AgentError> {
        let cx = &turn.cx;
        let Some(questions) = cx.service::<Questions>().filter(|questions| questions.is_attended()) else {
            return Ok(UiAnswer::Absent);
        };
        self.announce_outcome(turn, BudgetOutcome::Asked).await?;
        let question = Selection::new(
            format!(
                "The budget is used up: {}. What now?",
                self.budget.describe_shortage(self.spent, self.wanted)
            ),
            vec![
                format!("raise it to {}", self.ledger.raised_budget(self.wanted)),
                "go on without a limit".to_owned(),
                "stop here".to_owned(),
            ],
        );
        Ok(questions.ask(question.into(), cx, PATIENCE).await)
    }

    async fn announce_outcome(&self, turn: &Turn, outcome: BudgetOutcome) -> Result<(), AgentError> {
        let reached = RunBudgetReached {
            turn: turn.number,
            turn_id: turn.id.clone(),
            budget: self.budget,
            spent: self.spent,
            wanted: self.wanted,
            outcome,
        };
        Ok(turn.cx.emit(reached).await?)
    }
}
