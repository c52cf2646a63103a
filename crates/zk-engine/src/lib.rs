//! Durable runs: an engine that keeps runs alive over the death of their workers, on SQLite.
//!
//! | item | purpose |
//! |---|---|
//! | [`LocalEngine`] | the `dyn Engine` of one machine: runs, leases, schedules in one file, for several worker processes |
//! | [`AgentLegs`] | the `dyn Legs` of agents: a leg resumes a session under its lease, and ends done, parked or handed over |
//! | [`SessionLeg`], [`leg_place`] | agent of a leg with its session, and the place and the failures of that session |
//! | [`EngineLocation`], [`EngineKind`], [`ChosenEngine`] | place of an engine in the settings, and the kinds beyond this machine that a program adds |
//! | [`LegSource`], [`serve_legs`], [`settle_leg`] | worker of any engine: stored runs behind the loop that takes them, renews leases and ends legs |
//! | [`LegPlaces`], [`KeptWorkspaces`] | where a leg works: directories by name, of one host, or files that every worker brings from a store |
//! | [`RunWatch`] | what a run is doing: when to look at its entries, and the answer that is on its way |
//! | [`Runs`] | runs with their sessions: submit, steer, answer, hand off, schedule |
//!
//! # Example
//!
//! `cargo run -p zk-harness-engine --example hello_runs`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/hello_runs.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No prompt, answer, path of a project or secret is in the file of an engine: a job is ids and names. No terminal, no argument and
//! no settings file.

mod agent_legs;
mod clock;
mod error;
mod file;
mod leg_session;
mod local;
mod location;
mod relay;
mod rows;
mod runs;
mod schedules;
mod serve;
mod settings;
mod worker;
mod workspaces;

pub use agent_legs::{AgentLegs, LegAgent, LegOpener};
pub use leg_session::error::LegSessionError;
pub use leg_session::{SessionLeg, leg_place};
pub use local::LocalEngine;
pub use location::{ChosenEngine, EngineKind, EngineLocation, EngineLocationError};
pub use relay::{LiveUpdate, RunWatch};
pub use runs::{Placement, Runs, RunsError};
pub use settings::FleetSettings;
pub use worker::{
    LegId, LegSource, Looked, MAX_LEG_DEATHS, Renewal, Settlement, TakenLeg, count_losses, serve_legs,
    settle_leg,
};
pub use workspaces::{
    FILES_ENTRY, FILES_SOURCE, HostName, KEPT_DIRECTORY_AGE, KEPT_WORKSPACE, KeepFiles, KeptWorkspaces,
    LegFiles, LegPlace, LegPlaces, StoredFiles, WorkspaceName,
};
