//! Test kit for zk and for programs built on zk.
//!
//! | part | purpose |
//! |---|---|
//! | [`Script`], [`ScriptedProvider`] | model that plays a script, inside of the process |
//! | [`FakeServer`] | the same script behind a real socket, in the wire formats of real providers, with faults |
//! | [`check_provider`] | conformance checks for a provider |
//! | [`check_store`] | conformance checks for a session store |
//! | [`FailingStore`] | session store that is out of reach for a while |
//! | [`check_engine`] | conformance checks for an engine of durable runs |
//! | [`check_workspaces`] | conformance checks for a store of the files of runs |
//! | [`check_kills`] | kills of worker processes at random moments, for any engine |
//! | [`TracedWork`] | work of agents that are killed, and what it must not have repeated |
//! | [`rules`] | rules by which providers reject requests, as pure functions |
//! | `FakeMcpServer` | MCP server on two streams, with faults |
//! | [`CountingHost`] | loopback server that counts its connections |
//! | [`PostgresServer`] | PostgreSQL server of a test, where its programs are installed |
//! | `LinkProxy` | proxy in front of a server, whose link a test stalls and cuts |
//! | [`SimClock`] | date that tests move |
//! | [`demo`] | project with failing tests, and a script that repairs it |
//! | [`IdleTool`] | tool that does nothing, for figures of the rest |
//! | [`Recorder`] | observer with a readable transcript of a run |
//!
//! # Example
//!
//! `cargo run -p zk-harness-testkit --example scripted`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/scripted.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No other crate of zk but `zk-core`, no real provider and no key. It reads no environment, prints nothing,
//! and opens sockets only on 127.0.0.1. It starts no program but those of [`PostgresServer`].

mod clock;
#[cfg(feature = "server")]
mod conformance;
pub mod demo;
mod engine;
mod host;
#[cfg(feature = "mcp")]
mod mcp;
mod outside;
mod provider;
mod recorder;
mod report;
pub mod rules;
mod script;
#[cfg(feature = "server")]
mod server;
mod store;
mod tool;

pub use clock::SimClock;
#[cfg(feature = "server")]
pub use conformance::{WireSamples, check_provider};
pub use engine::{
    EngineOptions, Killed, StepLegs, StoredBytes, Traced, TracedWork, check_engine, check_kills, kill_workers,
};
pub use host::CountingHost;
#[cfg(feature = "mcp")]
pub use mcp::{FakeMcpEnd, FakeMcpEra, FakeMcpFault, FakeMcpScript, FakeMcpServer};
#[cfg(feature = "server")]
pub use outside::LinkProxy;
pub use outside::PostgresServer;
pub use provider::ScriptedProvider;
pub use recorder::{Recorded, Recorder};
pub use report::Conformance;
pub use script::{Answered, Asked, Script, Step, Turn};
#[cfg(feature = "server")]
pub use server::{FakeServer, FakeServerBuilder, Fault, RawReply, Received, RetryAfter, StartError};
pub use store::{FailingStore, PrepareDir, StoreOptions, WorkspaceOptions, check_store, check_workspaces};
pub use tool::IdleTool;
