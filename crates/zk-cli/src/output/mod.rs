//! Lines of standard output for programs.

pub(crate) mod events;
pub(crate) mod result;
