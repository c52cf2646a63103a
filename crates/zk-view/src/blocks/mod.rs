//! Pieces of a conversation: blocks, calls and their bodies.

pub(crate) mod block;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod diff;
