//! Commands by which other programs drive zk, or have it run commands for them.

#[cfg(feature = "acp")]
mod acp;
mod agent_sdk;
mod exec_server;
mod fleet;
mod rpc;
mod serve_sessions;
mod web;
mod worker;

#[cfg(feature = "acp")]
pub(crate) use acp::acp;
pub(crate) use agent_sdk::agent_sdk;
pub(crate) use exec_server::{exec_server, stdio_stream};
pub(crate) use fleet::serve_fleet;
pub(crate) use rpc::{rpc, rpc_schema};
pub(crate) use serve_sessions::serve_sessions;
pub(crate) use web::web;
pub(crate) use worker::worker;

use super::print_text;
