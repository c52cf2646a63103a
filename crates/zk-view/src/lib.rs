//! The chat engine of zk: what a person sees of a conversation, as data.
//!
//! Events of the agent and the person's [`Intent`]s go in; [`Patch`]es of a [`View`] and [`Effect`]s come out. A
//! front-end keeps a [`View`] up to date, or draws the patches as they come; it never needs to look at an event.
//!
//! | item | what it is |
//! |---|---|
//! | [`Engine`] | the reducer: no clock, no I/O, nothing but data in and out |
//! | [`ViewDriver`], [`Reader`] | the engine on a bus, and bounded readers that never hold the agent up |
//! | [`Block`], [`Content`] | one piece of the conversation; closed ones never change |
//! | [`Text`] | text that is safe on a terminal, by type |
//! | [`rebuild`], [`body_of`] | the same blocks from a stored session, and the lines of an old body |
//!
//! # Example
//!
//! `cargo run -p zk-harness-view --example lines`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/lines.rs")]
#![doc = "```"]
//!
//! # What it keeps
//!
//! - Closed blocks never change, and have the same ids and contents when their session is shown again.
//! - What a reader has not read is bounded: text that follows text is one patch, and a reader that falls behind gets
//!   the whole view once, as [`Patch::Reset`]. Nobody's reading stops the agent.
//! - A block holds a bounded part of a result; the last megabytes of full results are kept, older ones are read from
//!   the session ([`Effect::LoadBody`]).
//!
//! # What this crate must never know
//!
//! No terminal, no file and no settings; no tool and no plugin by name. It knows `zk-core` and no sibling.

mod blocks;
mod driver;
mod engine;
mod facts;
mod indexed_view;
mod intent;
mod patch;
mod question;
mod queues;
mod record;
mod run_result;
mod status;
mod subagents;
mod text;
mod view;

pub use blocks::block::{AnswerEnd, Block, BlockId, Content, NoteLevel, PluginBlock, RunEnd, SubAgent};
pub use blocks::body::{Body, Form};
pub use blocks::call::{Call, CallState};
pub use blocks::diff::{DiffLine, DiffReader};
pub use driver::{Drained, Reader, ViewDriver};
pub use engine::{
    AdoptedAgent, Engine, EngineInput, EngineOutput, Kept, ObservedEvent, WholeBlock, adopted_run, body_of,
    rebuild, rebuild_whole,
};
pub use indexed_view::IndexedView;
pub use intent::{Effect, Intent, Lines, Queued};
pub use patch::{PATCH_VERSION, Patch};
pub use question::Card;
pub use run_result::{RefusedCall, RefusedCalls, final_answer};
pub use status::{
    Activity, AgentRow, AgentState, BatchCounts, CheckRow, ContextGauge, GaugeColour, JobRow, JobState,
    LastCompaction, Status,
};
pub use subagents::SubagentWords;
pub use text::code::{CodeLexer, CodeToken, MAX_COLOURED_BYTES, changed_words};
pub use text::{Sanitiser, Text, escape_controls, is_harmless, is_plain_ascii, redact_json, sanitise};
pub use view::View;
