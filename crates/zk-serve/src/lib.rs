//! Protocols by which other programs drive zk. Each stands on conversations that `zk-chat` hosts.
//!
//! | item | what it is |
//! |---|---|
//! | [`LineReader`], [`LineWriter`] | messages as lines, bounded in both directions |
//! | [`rpc`] | `zk rpc`: JSON-RPC for programs of any language, whose clients share conversations |
//!
//! # Example
//!
//! `cargo run -p zk-serve --example rpc_pipe`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/rpc_pipe.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No argument, no environment variable and no settings file: the program hands in a launcher of conversations, and the
//! streams or sockets to listen on.

mod lines;
pub mod rpc;

pub use lines::{LineError, LineReader, LineWriter, MAX_LINE_BYTES};
