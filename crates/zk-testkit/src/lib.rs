//! Test kit for zk, and for what is built on zk.
//!
//! | part | what it is |
//! |---|---|
//! | [`Script`], [`ScriptedProvider`] | a model that says what a script tells it to, inside the process |
//! | [`FakeServer`] | the same script behind a real socket, in the wire formats of real providers, with faults |
//! | [`check_provider`] | whether a provider that somebody wrote keeps to what every provider keeps to |
//! | [`rules`] | what providers reject, as pure functions |
//! | `FakeMcpServer` | a server of the Model Context Protocol on two streams, with faults |
//! | [`CountingHost`] | a server on loopback that counts who connects |
//! | [`SimClock`] | a date that moves when it is told to |
//! | [`demo`] | a project whose tests fail, and a script that repairs it |
//! | [`Recorder`] | an observer whose transcript reads like a protocol of the run |
//!
//! # Example
//!
//! `cargo run -p zk-testkit --example scripted`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/scripted.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No other crate of zk but `zk-core`, no real provider and no key. It reads no environment, prints nothing,
//! and opens no socket but on 127.0.0.1.

mod clock;
#[cfg(feature = "server")]
mod conformance;
pub mod demo;
mod host;
#[cfg(feature = "mcp")]
mod mcp;
mod provider;
mod recorder;
pub mod rules;
mod script;
#[cfg(feature = "server")]
mod server;

pub use clock::SimClock;
#[cfg(feature = "server")]
pub use conformance::{Conformance, WireSamples, check_provider};
pub use host::CountingHost;
#[cfg(feature = "mcp")]
pub use mcp::{FakeMcpEnd, FakeMcpEra, FakeMcpFault, FakeMcpScript, FakeMcpServer};
pub use provider::ScriptedProvider;
pub use recorder::{Recorded, Recorder};
pub use script::{Answered, Asked, Script, Step, Turn};
#[cfg(feature = "server")]
pub use server::{FakeServer, FakeServerBuilder, Fault, RawReply, Received, RetryAfter, StartError};
