//! Budgets in money and tokens: what the next request could cost is held before it is sent, and what it did cost is
//! charged afterwards, in every budget of the tree.

mod ledger;
mod quote;
mod reserve;

pub(crate) use ledger::{BudgetChain, Ledger, Reservation, stored_spent};
pub(crate) use quote::{Estimator, Quote};
pub(crate) use reserve::reserve_side_call;
