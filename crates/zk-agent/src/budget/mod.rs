//! Budgets in money and tokens: what the next request could cost is held before it is sent, and what it did cost is
//! charged afterwards, in every budget of the tree.

mod afford;
mod ledger;
mod quote;

pub(crate) use afford::afford_aside;
pub(crate) use ledger::{Hold, Ledger, Purse, stored_spent};
pub(crate) use quote::{Estimator, Quote};
