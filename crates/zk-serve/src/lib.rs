//! Protocols by which other programs drive zk. Each stands on conversations that `zk-chat` hosts.
//!
//! | item | what it is |
//! |---|---|
//! | [`acp`] | the Agent Client Protocol, by which editors drive zk (feature `acp`, on by default) |
//! | [`fleet`] | `zk fleet serve`: runs that outlive their worker, over HTTP |
//! | [`LineReader`], [`LineWriter`] | messages as lines, bounded in both directions |
//! | [`LoopbackListener`] | an address of this machine at which an HTTP service listens |
//! | `print` | the lines of a run without a person: its events, and what it comes to |
//! | [`rpc`] | `zk rpc`: JSON-RPC for programs of any language, whose clients share conversations |
//! | [`serve_agent_sdk`], [`SdkArgs`], [`SdkOptions`] | the protocol of the Claude Agent SDKs, in the place of their own program |
//! | [`sessions`] | `zk serve-sessions`: a store of sessions for other processes |
//! | [`web`] | `zk web`: a page that is such a client, and links that let it in |
//!
//! # Example
//!
//! `cargo run -p zk-harness-serve --example rpc_pipe`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/rpc_pipe.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No argument, no environment variable and no settings file: the program hands in a launcher of conversations, and the
//! streams or sockets to listen on.

#[cfg(feature = "acp")]
pub mod acp;
mod agent_sdk;
pub mod fleet;
mod http;
mod lines;
pub mod print;
pub mod rpc;
pub mod sessions;
pub mod web;

pub use agent_sdk::{NoticeSink, SdkArgs, SdkError, SdkOptions, serve_agent_sdk};
pub use http::LoopbackListener;
pub use lines::{LineError, LineReader, LineWriter, MAX_LINE_BYTES};
