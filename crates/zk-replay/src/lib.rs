//! Replay for zk: stored sessions as events again, driven through the real loop, compared, and packed.
//!
//! | item | purpose |
//! |---|---|
//! | [`replay`] | the events that a session was stored from, in stored order; nothing runs |
//! | [`ReplayLog`] | plugin that stores what a later comparison needs |
//! | [`Recording`] | the runs of a session as data |
//! | [`Replay`] | recorded answers and results through the real loop, with plugins of today |
//! | [`Playback`], [`ReplayProvider`] | the same in an agent of one's own |
//! | [`compare`] | what differs between a recording and its replay, the first difference first |
//! | [`Pack`] | a redacted session with its settings and blobs, in one file |
//!
//! # Example
//!
//! `cargo run -p zk-harness-replay --example changed_plugin`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/changed_plugin.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No network and no process. It reads no environment and no settings, and prints nothing; a pack is bytes that
//! a caller reads and writes.

mod compare;
mod digest;
mod events;
mod log;
mod pack;
mod playback;
mod recording;

pub use compare::{Change, Difference, Place, compare};
pub use events::{StoredEvent, replay};
pub use log::{REPLAY_ENTRY, REPLAY_ENTRY_VERSION, ReplayLog, Verdict};
pub use pack::{
    MAX_PACK_BYTES, MAX_UNPACKED_BYTES, PACK_VERSION, Pack, PackError, PackLimits, PackNotes, PackVersions,
};
pub use playback::{NOT_RECORDED, Playback, Replay, ReplayError, ReplayProvider};
pub use recording::{RecordedCall, RecordedRun, RecordedTurn, Recording};
