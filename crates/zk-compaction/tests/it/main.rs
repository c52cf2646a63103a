//! Behaviour of an agent whose conversation outgrows its model's window.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of tests fail by panicking")]

mod campaign;
mod focus;
mod late;
mod model_switch;
mod never_twice;
mod overflow;
mod pairs;
mod part_read;
mod pinned;
mod plugins_asked;
mod replay;
mod soundness;
mod stored;
mod subgoal;
mod summarisers;
mod summary;
mod taken_back;
mod tools;
mod trigger;
mod window;
