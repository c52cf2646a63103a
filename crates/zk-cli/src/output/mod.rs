//! Lines of standard output for programs.

mod escape;
pub(crate) mod events;
pub(crate) mod result;

pub(crate) use escape::{escape_controls, redact_json};
