//! Strategies: each plans which messages are left out of requests.

pub(crate) mod focus;
pub(crate) mod rolling;
pub(crate) mod shorten;
pub(crate) mod stale_reads;
pub(crate) mod subgoal;
pub(crate) mod summary;
pub(crate) mod tail;
pub(crate) mod tool_pairs;
