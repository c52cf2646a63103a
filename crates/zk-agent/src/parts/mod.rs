//! Models of parts: chosen by settings, with a fallback when one cannot be used.

mod backoff;
mod configured;

pub(crate) use backoff::Backoff;
pub use configured::{ConfiguredParts, PartOpener};
