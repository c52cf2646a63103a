//! Other agents as backends of zk: a prompt of a conversation is answered by an agent that speaks the Agent Client
//! Protocol, in the same window, with zk's sessions, permission cards and screens.
//!
//! A turn of such an agent is a response of a [`Provider`](zk_core::service::Provider): its text and thoughts are
//! streamed, and each of its tool calls stands in the conversation as a call whose tool waits for what the agent does.
//! Requests of the agent for permission, files and commands go through the gates of zk.
//!
//! # Example
//!
//! `cargo run -p zk-harness-backends --example backends`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/backends.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! The location of settings, their trust, sandboxes and terminals: the host passes all of that in.

mod acp;
mod backend;
mod definition;
mod lock;
mod peer;
mod pinned;
mod plugin;
pub mod settings;
mod steps;
mod turn;

pub use acp::agent::{AgentExecs, AgentFault};
pub use backend::AcpBackend;
pub use definition::{BackendDefinition, BackendError};
pub use plugin::BackendsPlugin;
