//! Standard output for programs: one writer, and the lines that go through it.

mod escape;
pub(crate) mod events;
pub(crate) mod result;
mod writer;

pub(crate) use escape::{escape_controls, redact_json};
pub(crate) use writer::{Output, WriteFailure};
