use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use zk_core::model::{AgentError, Budget, Model, RunId, Spent, Usage};
use zk_core::service::{ChildBudget, Request, RunBudget};

use super::Quote;
use super::quote::request_bytes;
use crate::lock::lock;

/// Output limit in tokens below which a request is not worth sending.
const MIN_ANSWER_TOKENS: u32 = 1_024;

/// One budget: its limit, the amount spent, and the reservations of requests in flight.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The budget as first set; a person who raises the budget adds this amount again.
    first: Budget,
    state: Mutex<State>,
    /// Notified when a reservation is released or the budget changes.
    freed: Notify,
    /// Lock that is held while a person is asked; other requests wait for the answer.
    pub(super) asking: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    budget: Budget,
    spent: Spent,
    held: Vec<(u64, Spent)>,
    /// Budget that a person set for the run, and the parts of child runs.
    of_run: RunBudget,
    /// Whether a person refused to raise the budget, or no person was present. No further question is asked
    /// until the next run.
    is_refused: bool,
}

impl State {
    fn reserved_total(&self) -> Spent {
        self.held.iter().fold(Spent::default(), |sum, (_, one)| sum + *one)
    }

    /// Returns the amount that is spent, or that child runs have.
    fn committed(&self) -> Spent {
        self.spent + self.of_run.of_children()
    }
}

impl Ledger {
    pub(crate) fn new(budget: Budget) -> Option<Arc<Self>> {
        (!budget.is_unlimited()).then(|| Self::with_state(budget, RunBudget::default()))
    }

    fn with_state(budget: Budget, of_run: RunBudget) -> Arc<Self> {
        let state = State { budget, spent: of_run.spent, held: Vec::new(), of_run, is_refused: false };
        Arc::new(Self {
            first: budget,
            state: Mutex::new(state),
            freed: Notify::new(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    /// Creates the ledger of a leg from what the session records of its run. Unless a person set a budget for the run, it
    /// has that of its worker.
    pub(crate) fn of_run(of_worker: Option<Budget>, run: Option<&RunBudget>) -> Arc<Self> {
        let run = run.cloned().unwrap_or_default();
        Self::with_state(run.limit.or(of_worker).unwrap_or_default(), run)
    }

    /// Returns the budget of the run, for its session.
    pub(crate) fn stored(&self) -> RunBudget {
        lock(&self.state).of_run.clone()
    }

    /// Sets the budget that a person gave the run.
    pub(crate) fn set_for_run(&self, budget: Budget) {
        lock(&self.state).of_run.limit = Some(budget);
        self.set_budget(budget);
    }

    /// Allots half of the rest to a child run; returns it as the child's budget, with whether it is new. `None` if the
    /// half would not pay an answer.
    pub(crate) fn allot(&self, child: &RunId) -> Option<(Budget, bool)> {
        let mut state = lock(&self.state);
        let budget = state.budget;
        if budget.is_unlimited() {
            return Some((Budget::default(), false));
        }
        let as_budget = |part: Spent| Budget {
            usd: budget.usd.map(|_| part.usd),
            tokens: budget.tokens.map(|_| part.tokens),
        };
        if let Some(known) = state.of_run.children.get(child) {
            return Some((as_budget(known.amount()), false));
        }
        let used = state.committed() + state.reserved_total();
        let usd = budget.usd.map_or(0.0, |most| (most - used.usd) / 2.0);
        let tokens = budget.tokens.map_or(0, |most| most.saturating_sub(used.tokens) / 2);
        let is_too_little = budget.usd.is_some_and(|_| usd <= 0.0)
            || budget.tokens.is_some_and(|_| tokens < u64::from(MIN_ANSWER_TOKENS));
        if is_too_little {
            return None;
        }
        let part = Spent { usd, tokens };
        state.of_run.children.insert(child.clone(), ChildBudget::Reserved(part));
        Some((as_budget(part), true))
    }

    /// Forgets the part of a child that was not started; returns whether it had one.
    pub(crate) fn drop_allotment(&self, child: &RunId) -> bool {
        let mut state = lock(&self.state);
        let is_reserved = matches!(state.of_run.children.get(child), Some(ChildBudget::Reserved(_)));
        if is_reserved {
            state.of_run.children.remove(child);
        }
        drop(state);
        self.freed.notify_waiters();
        is_reserved
    }

    /// Replaces the part of an ended child by what it has spent; returns whether it had one.
    pub(crate) fn return_allotment(&self, child: &RunId, spent: Spent) -> bool {
        let is_returned = match lock(&self.state).of_run.children.get_mut(child) {
            Some(part @ ChildBudget::Reserved(_)) => {
                *part = ChildBudget::Returned(spent);
                true
            }
            Some(ChildBudget::Returned(_)) | None => false,
        };
        self.freed.notify_waiters();
        is_returned
    }

    /// Sets the amount spent to that of a restored conversation.
    pub(crate) fn restore_spent(&self, spent: Spent) {
        lock(&self.state).spent = spent;
        self.freed.notify_waiters();
    }

    pub(crate) fn spent(&self) -> Spent {
        lock(&self.state).spent
    }

    /// Forgets that a person refused more budget, so that the new run may ask again.
    pub(crate) fn begin_run(&self) {
        lock(&self.state).is_refused = false;
    }

    pub(super) fn mark_refused(&self) {
        lock(&self.state).is_refused = true;
    }

    pub(super) fn is_refused(&self) -> bool {
        lock(&self.state).is_refused
    }

    pub(super) fn budget(&self) -> Budget {
        lock(&self.state).budget
    }

    pub(super) fn set_budget(&self, budget: Budget) {
        lock(&self.state).budget = budget;
        self.freed.notify_waiters();
    }

    /// Whether the budget still allows to spend `wanted`.
    pub(super) fn has_room(&self, wanted: Spent) -> bool {
        let state = lock(&self.state);
        state.budget.allows(state.committed() + wanted)
    }

    /// Returns the budget raised by its first amount, or by as much as `wanted` needs if that is more.
    pub(super) fn raised_budget(&self, wanted: Spent) -> Budget {
        let state = lock(&self.state);
        let needed = state.committed() + wanted;
        let usd = state.budget.usd.map(|most| {
            if needed.usd > most { needed.usd.max(most + self.first.usd.unwrap_or_default()) } else { most }
        });
        let tokens = state.budget.tokens.map(|most| {
            let step = self.first.tokens.unwrap_or_default();
            if needed.tokens > most { needed.tokens.max(most.saturating_add(step)) } else { most }
        });
        Budget { usd, tokens }
    }
}

/// Budgets of a run, its agent and its ancestors, all of which a request must fit.
#[derive(Clone, Debug, Default)]
pub(crate) struct BudgetChain(Vec<Arc<Ledger>>);

/// A budget whose rest cannot pay a request.
#[derive(Clone, Debug)]
pub(super) struct Shortage {
    pub(super) ledger: Arc<Ledger>,
    pub(super) budget: Budget,
    pub(super) spent: Spent,
    pub(super) wanted: Spent,
}

impl Shortage {
    pub(super) fn into_error(self) -> AgentError {
        let Self { budget, spent, wanted, .. } = self;
        AgentError::Budget { budget, spent, wanted }
    }
}

/// Result of reserving the highest cost of a request.
pub(super) enum ReserveOutcome {
    /// The request is reserved with at most `max_tokens` of output; `shortened_by` is the budget that lowered
    /// the limit.
    Granted { reservation: Reservation, max_tokens: u32, shortened_by: Option<Shortage> },
    /// The request may fit once requests in flight have cost less than reserved.
    Busy(Shortage),
    /// The request does not fit the rest of a budget.
    Short(Shortage),
}

impl BudgetChain {
    /// Creates the chain: the run's own budgets, then the ancestors' budgets.
    pub(crate) fn new(own: impl IntoIterator<Item = Arc<Ledger>>, above: Option<&Self>) -> Self {
        let above = above.into_iter().flat_map(|above| above.0.iter().cloned());
        Self(own.into_iter().chain(above).collect())
    }

    pub(crate) fn is_unlimited(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the size of a request in bytes of text; 0 if no budget is set.
    pub(crate) fn measure_request(&self, request: &Request) -> u64 {
        if self.is_unlimited() { 0 } else { request_bytes(request) }
    }

    /// Whether a budget limits money.
    pub(crate) fn limits_money(&self) -> bool {
        self.0.iter().any(|ledger| ledger.budget().usd.is_some())
    }

    /// Reserves the highest cost of a request in every budget, or in none.
    pub(super) fn reserve(&self, quote: &Quote<'_>, max_tokens: u32) -> ReserveOutcome {
        // All callers lock the budgets of a tree from the leaf to the root, which avoids deadlocks.
        let mut states: Vec<MutexGuard<'_, State>> =
            self.0.iter().map(|ledger| lock(&ledger.state)).collect();
        let least = quote.max_cost(MIN_ANSWER_TOKENS.min(max_tokens));
        let (mut granted, mut shortened_by) = (max_tokens, None);
        for (ledger, state) in self.0.iter().zip(&states) {
            let (held, budget, spent) = (state.reserved_total(), state.budget, state.committed());
            let shortage = |wanted| Shortage { ledger: ledger.clone(), budget, spent, wanted };
            if !budget.allows(spent + least) {
                return ReserveOutcome::Short(shortage(least));
            }
            if !budget.allows(spent + held + least) {
                return ReserveOutcome::Busy(shortage(least));
            }
            let longest = quote.longest_answer(&budget, spent + held, max_tokens);
            if longest < granted {
                (granted, shortened_by) = (longest, Some(shortage(quote.max_cost(max_tokens))));
            }
        }
        let most = quote.max_cost(granted);
        let id = next_reservation();
        states.iter_mut().for_each(|state| state.held.push((id, most)));
        drop(states);
        ReserveOutcome::Granted {
            reservation: Reservation { budgets: self.clone(), id, most },
            max_tokens: granted,
            shortened_by,
        }
    }

    /// Waits until a reservation in `ledger` is released, or its budget changes.
    pub(super) async fn wait_until_freed(&self, ledger: &Ledger, quote: &Quote<'_>, max_tokens: u32) {
        let freed = ledger.freed.notified();
        // A reservation may have been released before this wait began.
        if matches!(self.reserve(quote, max_tokens), ReserveOutcome::Busy(_)) {
            freed.await;
        }
    }
}

fn next_reservation() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Highest cost of a request in flight, reserved in every budget of its chain until it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budgets: BudgetChain,
    id: u64,
    most: Spent,
}

impl Reservation {
    /// Charges the actual usage.
    pub(crate) fn charge(&self, model: &Model, usage: &Usage) {
        let cost = Spent { usd: model.cost(usage).unwrap_or_default(), tokens: usage.read() + usage.output };
        self.budgets.0.iter().for_each(|ledger| lock(&ledger.state).spent += cost);
    }

    /// Checks that a retry of the same request still fits, after an attempt that was charged.
    pub(crate) fn check_again(&self) -> Result<(), AgentError> {
        for ledger in &self.budgets.0 {
            let state = lock(&ledger.state);
            if !state.budget.allows(state.committed() + state.reserved_total()) {
                let (budget, spent) = (state.budget, state.committed());
                return Err(AgentError::Budget { budget, spent, wanted: self.most });
            }
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for ledger in &self.budgets.0 {
            lock(&ledger.state).held.retain(|(id, _)| *id != self.id);
            ledger.freed.notify_waiters();
        }
    }
}
