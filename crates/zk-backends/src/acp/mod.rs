//! Agents that speak the Agent Client Protocol.

pub(crate) mod agent;
mod asking;
mod host_files;
mod incoming;
pub(crate) mod prompt;
pub(crate) mod protocol;
mod refusal;
pub(crate) mod session;
pub(crate) mod step;
mod terminals;
