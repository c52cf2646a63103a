//! Goals of conversations: autonomous work within caps, a supervisor, and the list of all live conversations of a
//! machine.
//!
//! | part | purpose |
//! |---|---|
//! | [`Goals`] | plugin: `/goal`, `/done`, autonomous turns, the supervisor; the goal is kept in the session |
//! | [`GoalMachine`] | the state machine: no clock, no I/O |
//! | [`GoalSpec`], [`Goal`] | a goal as asked for; the same with its progress |
//! | [`GoalSettings`] | section `[goals]` of the settings |
//! | [`FleetDir`], [`FleetBeacon`] | the conversations of this machine, over processes; the plugin that reports one |
//!
//! Everything is built on public seams of `zk-core`: events of runs and turns, `RunControl`, side calls, session
//! entries, prompt sections and commands.
//!
//! # What this crate must never know
//!
//! Terminals, providers, stores, and the location of state: the host passes a directory in.

mod drive;
mod error;
mod fleet;
mod goal;
mod settings;

pub use drive::{GoalRetry, Goals, describe_goal};
pub use error::GoalError;
pub use fleet::{
    FleetBeacon, FleetDir, FleetEntry, FleetError, FleetRequest, FleetState, FleetView, OpenAnswers,
    OpenQuestion, fleet_lines,
};
pub use goal::{
    Goal, GoalEffect, GoalInput, GoalMachine, GoalOrigin, GoalRules, GoalSpec, GoalSpecError, MAX_GOAL_BYTES,
    Spender, Supervision, SupervisorFailure, ends_with_phrase,
};
pub use settings::GoalSettings;
