//! Splits the bytes of a response into events and decodes them, with limits and time-outs.

pub(crate) mod decode;
pub(crate) mod frames;
pub(crate) mod limits;
mod mend;
pub mod sse;
pub(crate) mod timeouts;
