//! An `Exec` and `Files` of its own, made with nothing but zk's public API: both sides of a socket, as a container, an
//! editor or another host would have them.
//!
//! Each question has a connection of its own; a command has one for what happens, and asks on others.

mod client;
mod server;
mod wire;

pub use client::{SocketExec, SocketFiles};
pub use server::serve;
