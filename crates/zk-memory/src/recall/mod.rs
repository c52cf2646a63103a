//! From the words of a prompt to the block that a model reads.

pub(crate) mod block;
#[cfg(feature = "embeddings")]
pub(crate) mod meaning;
pub(crate) mod rank;
pub(crate) mod words;
