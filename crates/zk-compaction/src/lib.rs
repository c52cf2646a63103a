//! Context compaction for zk.
//!
//! What is here now are the two strategies that need no model. Both change what is sent, never what is stored:
//!
//! | strategy | when | what is left out |
//! |---|---|---|
//! | [`Tail`] | the tool results of a conversation exceed a number of bytes | the results of older turns |
//! | [`Shorten`] | a conversation does not fit its model's window | older results, then the oldest messages, then the middle of the newest results: until half is left |
//!
//! # What this crate must never know
//!
//! No provider, no store, no tool. It sees messages, through the events of `zk-core`, and nothing it does
//! changes a stored message.

mod instead;
mod shorten;
mod tail;

pub use shorten::Shorten;
pub use tail::Tail;
