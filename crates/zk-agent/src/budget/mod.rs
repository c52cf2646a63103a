//! Budgets in money and tokens. The highest cost of a request is reserved before it is sent, and its actual
//! cost is charged afterwards, in every budget of the tree.

mod ledger;
mod quote;
mod reserve;

pub(crate) use ledger::{BudgetChain, Ledger, Reservation};
pub(crate) use quote::{Estimator, Quote};
pub(crate) use reserve::reserve_side_call;
