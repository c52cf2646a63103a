//! Durable runs: an engine that keeps runs alive over the death of their workers, on SQLite.
//!
//! | item | purpose |
//! |---|---|
//! | [`LocalEngine`] | the `dyn Engine` of one machine: runs, leases, schedules in one file, for several worker processes |
//!
//! # Example
//!
//! `cargo run -p zk-engine --example hello_runs`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/hello_runs.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No prompt, answer, path of a project or secret is in the file of an engine: a job is ids and names. No terminal, no argument and
//! no settings file.

mod bell;
mod clock;
mod error;
mod file;
mod keeper;
mod local;
mod rows;
mod schedules;
mod serve;

pub use local::LocalEngine;
