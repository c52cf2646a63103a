//! `zk serve-sessions`: a store of sessions for other processes, over HTTP.

mod answer;
mod held;
mod server;
mod stream;

pub use server::{SessionServer, new_token};
