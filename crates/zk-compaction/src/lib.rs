//! Context compaction for zk.
//!
//! [`Window`] owns the context window: it knows how full it is, decides when less is sent, and keeps what is left out.
//! What that is, strategies plan ([`WindowStrategy`](zk_core::service::WindowStrategy)). They change what is sent, never
//! what is stored:
//!
//! | strategy | when | what is left out |
//! |---|---|---|
//! | [`Tail`] | the tool results of a conversation exceed a number of bytes | the results of older turns |
//! | [`ToolPairs`] | the request exceeds the lower threshold | older results, for summaries that were made beforehand |
//! | [`Summary`] | the conversation is compacted | all but the newest messages, for a summary that a model writes |
//! | [`Rolling`] | the conversation is compacted | all but the newest messages, for a line each |
//! | [`Subgoal`] | the conversation is compacted | what does not belong to the present subgoal: results first, then all of it, for a summary |
//! | [`Focus`] | the conversation is compacted | all but the newest messages, for a part for each thing that was worked on |
//! | [`Shorten`] | all that does not suffice | older results, then the oldest messages, then the middle of the newest results: until half is left |
//!
//! # Example
//!
//! `cargo run -p zk-compaction --example tail`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/tail.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No provider, no store, no tool. It sees messages and may have the run ask its model, and nothing it does
//! changes a stored message.

mod plan;
#[cfg(feature = "settings")]
pub mod settings;
mod store;
mod strategies;
mod text;
mod window;

pub use store::line_file::LineFile;
pub use store::line_store::{KeptLine, LineStore};
pub use store::record::sent_of;
pub use strategies::focus::Focus;
pub use strategies::rolling::Rolling;
pub use strategies::shorten::Shorten;
pub use strategies::subgoal::Subgoal;
pub use strategies::summary::Summary;
pub use strategies::tail::Tail;
pub use strategies::tool_pairs::ToolPairs;
pub use text::count::{ByteCounter, LazyCounter, TokenCounter, count_block, count_message};
pub use window::budget::Budget;
pub use window::options::{WindowOptions, WindowOptionsError};
pub use window::plugin::Window;
pub use window::report::{ContextPart, ContextReport, PartOf, report};
