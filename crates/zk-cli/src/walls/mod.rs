//! Limits of a conversation: containment of its commands, permission rules, approvals and audit.

pub(crate) mod containment;
pub(crate) mod place;
pub(crate) mod policy;
pub(crate) mod sandbox;
