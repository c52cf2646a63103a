//! Messages in both directions: requests with their answers, errors, abilities of the editor.

mod client;
mod error;
mod peer;
mod time;

pub(super) use client::{Client, KEYS_METHOD, TERMINAL_METHOD};
pub(super) use error::RpcError;
pub(super) use peer::Peer;
pub(super) use time::rfc3339;
