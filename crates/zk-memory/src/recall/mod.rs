//! From the words of a prompt to the block that a model reads.

pub(crate) mod block;
pub(crate) mod rank;
pub(crate) mod words;
