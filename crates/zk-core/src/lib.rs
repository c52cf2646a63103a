//! The core of zk, an agent harness you can take apart.
//!
//! | module | what is in it |
//! |---|---|
//! | [`kernel`] | the crate `zk-kernel`: typed events, how answers combine, scopes, registries, plugins |
//! | [`model`] | messages, models, usage, errors, and the one door to the wire, [`model::WireReady`] |
//! | [`service`] | the object-safe traits: [`service::Provider`], [`service::Tool`], [`service::Exec`] … |
//! | [`events`] | the catalogue of events, by phase |
//!
//! # Example
//!
//! `cargo run -p zk-harness-core --example gate`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/gate.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No provider, no tool, no file format, no process and no terminal belongs here. This crate reads no
//! environment, opens no file and no socket, and prints nothing. Its only dependency within zk is the kernel;
//! the other crates meet in its registries and events.

#[cfg(windows)]
compile_error!(
    "zk runs on Windows inside of WSL2, not natively: install WSL2, and build or install zk in its Linux; see docs/installing.md"
);

pub mod events;
pub mod model;
pub mod service;

pub use zk_kernel as kernel;
