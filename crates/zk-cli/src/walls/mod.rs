//! Bounds of a conversation: where its commands run, what runs unasked, what was trusted, what is recorded.

pub(crate) mod containment;
pub(crate) mod place;
pub(crate) mod policy;
pub(crate) mod sandbox;
