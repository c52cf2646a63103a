//! Standard output for programs: one writer, and the lines that go through it.

pub(crate) mod events;
pub(crate) mod result;
mod writer;

pub(crate) use writer::{Output, WriteFailure};
