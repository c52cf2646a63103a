//! Context compaction for zk.
//!
//! [`Window`] owns the context window: it measures the window's fill, decides when a request must shrink, and
//! records the messages that are left out. Strategies ([`WindowStrategy`](zk_core::service::WindowStrategy))
//! plan which messages these are. They change the sent conversation, never the stored one:
//!
//! | strategy | when | content that is left out |
//! |---|---|---|
//! | [`Tail`] | the conversation's tool results exceed a number of bytes | the results of older turns |
//! | [`StaleReads`] | the request exceeds the lower threshold | reads of files that were read again or changed since |
//! | [`ToolPairs`] | the request exceeds the lower threshold | older results, replaced by summaries that were made beforehand |
//! | [`Summary`] | the conversation is compacted | all but the newest messages, replaced by a model's summary |
//! | [`Rolling`] | the conversation is compacted | all but the newest messages, replaced by one line each |
//! | [`Subgoal`] | the conversation is compacted | content that does not belong to the current subgoal: first results, then whole messages, replaced by a summary |
//! | [`Focus`] | the conversation is compacted | all but the newest messages, replaced by one section for each topic |
//! | [`Shorten`] | the other strategies do not suffice | older results, then the oldest messages, then the middle of the newest results, until half is left |
//!
//! # Example
//!
//! `cargo run -p zk-harness-compaction --example tail`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/tail.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No provider, no store, no tool. It sees messages and may ask the run's model, and never changes a stored
//! message.

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
pub use strategies::stale_reads::StaleReads;
pub use strategies::subgoal::Subgoal;
pub use strategies::summary::Summary;
pub use strategies::tail::Tail;
pub use strategies::tool_pairs::ToolPairs;
pub use text::count::{ByteCounter, LazyCounter, TokenCounter, count_block, count_message};
pub use window::budget::Budget;
pub use window::options::{WindowOptions, WindowOptionsError};
pub use window::plugin::Window;
pub use window::report::{ContextPart, ContextReport, PartOf, report};
