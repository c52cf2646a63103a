//! Sessions for zk: the entry log, its stores and the recorder that writes it.
//!
//! | item | what it is |
//! |---|---|
//! | [`SqliteStore`] | one SQLite file for each session, with a lock of its own |
//! | [`MemoryStore`] | the same behaviour without a disk |
//! | [`Recorder`] | the plugin that writes a run into an open session |
//! | [`load_history`] | what a resumed run starts from |
//! | [`latest`], [`open_matching`] | how `--continue` and `--resume` find a session |
//!
//! # What it keeps
//!
//! - What an append acknowledged survives the death of the process at any moment.
//! - An assistant message with tool calls and the message with their results are one append: a log never ends
//!   between them.
//! - A file that cannot be read is never overwritten and never passes for an empty session: what is unreadable
//!   is kept aside, the rest opens with a notice.
//! - One process writes a session at a time; a second one is told which.
//!
//! # What this crate must never know
//!
//! No provider, no tool and no loop: it sees events and messages. It reads no environment and no settings (the
//! folder of the store is handed in), and prints nothing.

mod digest;
mod find;
mod history;
mod memory;
mod recorder;
mod sqlite;

pub use find::{latest, open_matching};
pub use history::{Loaded, load_history};
pub use memory::MemoryStore;
pub use recorder::Recorder;
pub use sqlite::SqliteStore;
