//! Context compaction for zk.
//!
//! [`Window`] owns the context window: it knows how full it is, decides when less is sent, and keeps what is left out.
//! What that is, strategies plan ([`WindowStrategy`](zk_core::service::WindowStrategy)). Here are the two that need no
//! model. They change what is sent, never what is stored:
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

mod budget;
mod count;
mod ledger;
mod options;
mod owner;
mod pins;
mod prepare;
mod record;
mod report;
mod results;
mod shorten;
mod tail;
mod talk;
mod trigger;
mod view;
mod window;

pub use budget::Budget;
pub use count::{ByteCounter, TokenCounter, count_block, count_message};
pub use options::{WindowOptions, WindowOptionsError};
pub use record::sent_of;
pub use report::{ContextPart, ContextReport, PartOf, report};
pub use shorten::Shorten;
pub use tail::Tail;
pub use window::Window;
