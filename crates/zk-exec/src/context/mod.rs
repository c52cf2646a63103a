//! Execution contexts: their names, and places of commands and files besides this machine.

mod name;
#[cfg(all(feature = "docker", feature = "remote"))]
mod target;

pub use name::{ContextName, ContextNameError, SshTarget, socket_path};
#[cfg(all(feature = "docker", feature = "remote"))]
pub use target::ExecutionTarget;
