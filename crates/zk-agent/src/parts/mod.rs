//! Models for parts of the agent, chosen by settings, with a fallback if one cannot be used.

mod backoff;
mod configured;

pub(crate) use backoff::Backoff;
pub use configured::{ConfiguredParts, PartOpener};
