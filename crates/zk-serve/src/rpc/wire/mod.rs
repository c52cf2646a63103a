//! Messages of the protocol, as data.

pub mod attach;
pub mod conversation;
pub mod digest;
pub mod notes;
pub mod refusal;
pub mod sessions;
