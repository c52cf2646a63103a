//! Protocols by which other programs drive zk. Each stands on conversations that `zk-chat` hosts.
//!
//! | item | what it is |
//! |---|---|
//! | [`acp`] | the Agent Client Protocol, by which editors drive zk (feature `acp`, on by default) |
//! | [`LineReader`], [`LineWriter`] | messages as lines, bounded in both directions |
//!
//! # What this crate must never know
//!
//! No argument, no environment variable and no settings file: the program hands in a launcher of conversations, and the
//! streams or sockets to listen on.

#[cfg(feature = "acp")]
pub mod acp;
mod lines;

pub use lines::{LineError, LineReader, LineWriter, MAX_LINE_BYTES};
