//! Models for parts of the agent, chosen by settings, with a fallback if one cannot be used.

mod backoff;
mod configured;
mod optional;

use backoff::Backoff;
pub use configured::{ConfiguredParts, PartOpener};
use optional::OptionalCalls;

/// Limits of an agent's side calls.
#[derive(Debug, Default)]
pub(crate) struct SideCallLimits {
    /// Back-off per model after failed requests, also those of sub-agents.
    pub(crate) backoff: Backoff,
    /// Calls in progress for parts that may be left out.
    pub(crate) optional: OptionalCalls,
}
