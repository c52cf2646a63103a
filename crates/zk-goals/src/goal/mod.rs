//! A goal as data, and the state machine that decides about it: no clock and no I/O.

mod machine;
mod phrase;
mod spec;
mod text;

pub use machine::{GoalEffect, GoalInput, GoalMachine, GoalRules, Spender, SupervisorFailure};
pub use phrase::ends_with_phrase;
pub use spec::{Goal, GoalOrigin, GoalSpec, GoalSpecError, MAX_GOAL_BYTES, Supervision};
