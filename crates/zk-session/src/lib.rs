//! Sessions for zk: the entry log, its stores and the recorder that writes it.
//!
//! | item | purpose |
//! |---|---|
//! | [`SqliteStore`] | one SQLite file and one lock for each session |
//! | [`MemoryStore`] | the same behaviour without a disk |
//! | [`Recorder`] | plugin that writes a run into an open session, and lets plugins store entries in it |
//! | [`redact_entry`] | removal of secrets from an entry |
//! | [`resume_conversation`], [`continue_conversation`] | all that an agent needs to continue a session, or the newest one of a directory |
//! | [`resume_leg`], [`open_questions`], [`answer_question`] | runs that outlive their worker: the next leg, and what a person decides |
//! | [`load_history`], [`load_live`], [`resume`] | history from which a resumed run starts |
//! | [`MemoryRelay`], [`SocketRelay`] | live signals beside the entries, within a process and between processes |
//! | [`SessionPlace`], [`ConversationSession`] | session of a conversation: opening, resuming, preview, copy and end |
//! | [`SessionSwitch`] | sessions of a conversation one after the other, each closed when it is left |
//! | [`latest`], [`open_matching`], [`read_matching`], [`scan_matching`] | lookup of a session for `--continue`, `--resume` and listings |
//! | [`TitlePlugin`] | titles of sessions by a model |
//! | [`FileBlobs`] | large contents of a session, in files beside it |
//! | [`DumpFiles`] | plugin that writes requests and repairs into files, for debugging |
//! | [`Digest`], [`title_line`], [`near_match`] | parts of a store that all stores share: counts, titles, hints |
//! | [`discard_unanswered`] | removal of a session without an answer |
//! | [`SqliteStore::search`], [`SqliteStore::verify`], [`SqliteStore::remove_content`] | search over all sessions, their chain of hashes, removal of a content |
//! | [`Trash`], [`Leftovers`] | deleted sessions, and remains that nobody needs |
//!
//! # Example
//!
//! `cargo run -p zk-harness-session --example session`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/session.rs")]
#![doc = "```"]
//!
//! # What it keeps
//!
//! - An acknowledged append survives the death of the process at any moment, and a power cut if that was
//!   requested.
//! - An assistant message with tool calls and the message with their results are one append: a log never ends
//!   between them.
//! - An unreadable file is never overwritten and never passes for an empty session: unreadable parts are kept
//!   aside, and the rest opens with a notice.
//! - One process writes a session at a time; a second process gets an error that names the first.
//!
//! # What this crate must never know
//!
//! No provider, no tool and no loop: it sees events and messages. It reads no environment and no settings (the
//! folder of the store is handed in), and prints nothing.

#[cfg(feature = "files")]
mod blobs;
mod digest;
mod dump;
mod find;
mod history;
#[cfg(feature = "sqlite")]
mod index;
mod memory;
#[cfg(feature = "sqlite")]
mod moves;
#[cfg(feature = "sqlite")]
mod opening;
mod recorder;
mod relay;
#[cfg(feature = "sqlite")]
mod search;
#[cfg(feature = "sqlite")]
mod sqlite;
mod title;
#[cfg(feature = "sqlite")]
mod upkeep;

#[cfg(feature = "files")]
pub use blobs::FileBlobs;
pub use digest::{Digest, title as title_line};
pub use dump::DumpFiles;
pub use find::{
    discard_unanswered, find_matching, is_valid_id, latest, near_match, open_matching, read_live_matching,
    read_matching, scan_matching,
};
pub use history::{
    AnswerRefused, CallState, Earlier, InterruptedCall, InterruptedTurn, Loaded, PluginEntry,
    answer_question, continue_conversation, load_history, load_live, open_questions, resume,
    resume_conversation, resume_leg, store_interrupted,
};
pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub use opening::{
    ConversationSession, NoticeSink, OpeningError, SessionCopy, SessionNotice, SessionPlace, SessionStart,
    SessionSwitch, SharedStore, SwitchHost, last_run,
};
pub use recorder::{Recorder, Saved, redact_entry};
pub use relay::MemoryRelay;
#[cfg(feature = "sqlite")]
pub use relay::SocketRelay;
#[cfg(feature = "sqlite")]
pub use search::{
    SearchError, SearchFilter, SearchHit, SearchIndexState, SearchResults, SessionHits, SnippetPart, TextKind,
};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use title::TitlePlugin;
#[cfg(feature = "sqlite")]
pub use upkeep::{
    ChainFault, Leftover, LeftoverKind, Leftovers, RemovedContent, Trash, TrashError, TrashedSession,
    Verification,
};
