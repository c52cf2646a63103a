//! Context compaction for zk.
//!
//! What is here now is [`Tail`], the strategy that needs no model: old tool results are replaced by a stub in
//! what is sent, never in what is stored.
//!
//! # What this crate must never know
//!
//! No provider, no store, no tool. It sees messages, through the events of `zk-core`, and nothing it does
//! changes a stored message.

mod tail;

pub use tail::Tail;
