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

mod ask;
mod before;
mod budget;
mod count;
mod cut;
mod focus;
mod late;
mod ledger;
mod line;
mod lines;
mod options;
mod outcome;
mod owner;
mod pairs;
mod pins;
mod prepare;
mod recall;
mod record;
mod report;
mod results;
mod rolling;
#[cfg(feature = "settings")]
pub mod settings;
mod shorten;
mod subgoal;
mod summary;
mod tail;
mod talk;
mod trigger;
mod view;
mod vocabulary;
mod window;
mod words;

pub use budget::Budget;
pub use count::{ByteCounter, LazyCounter, TokenCounter, count_block, count_message};
pub use focus::Focus;
pub use lines::{KeptLine, LineStore, only_looks};
pub use options::{WindowOptions, WindowOptionsError};
pub use pairs::ToolPairs;
pub use record::sent_of;
pub use report::{ContextPart, ContextReport, PartOf, report};
pub use rolling::Rolling;
pub use shorten::Shorten;
pub use subgoal::Subgoal;
pub use summary::Summary;
pub use tail::Tail;
pub use window::Window;
