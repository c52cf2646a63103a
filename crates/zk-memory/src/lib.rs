//! Memory for zk: facts that outlive a session, recalled by the words of a prompt.
//!
//! | part | purpose |
//! |---|---|
//! | [`Memory`] | plugin: recalls facts before the model is asked, the tool `remember`, `/remember`, `/memory` |
//! | [`MemoryStore`] | facts in one private SQLite file, with an index of their words |
//! | [`MemoryFile`] | `MEMORY.md` of the person or of a project |
//! | [`MissLog`] | log of recalls that gave the model no fact |
//! | [`report`] | lines about a memory for a person |
//! | [`MemorySettings`] | section `[memory]` of the settings |
//!
//! A model's call of `remember` runs by rule or mode only if nothing entered its context since the last prompt that
//! the person did not type. Otherwise a person sees the exact words first; without one they become a proposal. The
//! gate for that is registered with the tool, before the gate of permissions.
//!
//! # What this crate must never know
//!
//! Sessions, terminals, settings files and the location of state: the host passes paths in.

mod command;
mod error;
mod fact;
mod gate;
mod memory_file;
mod misses;
mod plugin;
mod recall;
pub mod report;
mod settings;
mod shared;
mod store;
mod taint;
mod tool;

pub use error::MemoryError;
pub use fact::{Fact, FactId, FactOrigin, FactScope, FactState, MAX_FACT_BYTES, NewFact, REMEMBER};
pub use memory_file::{FileFacts, MEMORY_FILE, MemoryFile, ProjectFacts, TRUST_MEMORY, trust_item};
pub use misses::{MissLog, MissOutcome};
pub use plugin::Memory;
pub use settings::MemorySettings;
pub use store::{
    FactFilter, Forgotten, MAX_FACTS, MAX_PROPOSALS, MemoryStore, RecallQuery, RecallRecord, Recalled,
    RecalledFact, Saved, SyncedFile,
};
