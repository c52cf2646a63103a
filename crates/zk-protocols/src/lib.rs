//! Tool protocols: forms in which a model is offered tools and calls them.
//!
//! | part | purpose |
//! |---|---|
//! | [`ProtocolsPlugin`] | plugin: the protocol of each model, and a second request for an answer that is reasoning alone |
//! | [`ProtocolSettings`] | keys `protocol`, `protocols`, `core` and `constrained` of section `[tools]` |
//! | [`CallExtractor`] | registry item [`EXTRACT_CALLS`]: reads calls from the text of an answer, for [`ToolProtocol::Inline`] |
//!
//! `deferred` and `inline` are a decorator of every `dyn Provider`: between it and the loop, requests and answers have
//! tools and calls as any API has them, so gates, hooks, displays and the stored history see the real tool with its real
//! arguments. `lookup` answers `tools:offer` and unlocks tools by `RunTools`. Nothing here is private to zk.
//!
//! # Example
//!
//! `cargo run -p zk-harness-protocols --example inline`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/inline.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! The tools that there are, the formats of providers, and the program that runs it.

mod choice;
mod deferred;
mod inline;
mod lookup;
mod plugin;
mod provider;
mod reasoning;
mod rewrite;
mod settings;
mod signature;

pub use inline::{
    CallExtractor, CallFormat, CallPiece, CallReader, EXTRACT_CALLS, ExtractedCall, FencedCalls,
};
pub use plugin::ProtocolsPlugin;
pub use settings::ProtocolSettings;
pub use zk_core::model::ToolProtocol;
