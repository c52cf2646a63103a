//! Protocols by which other programs drive zk. Each stands on conversations that `zk-chat` hosts.
//!
//! | item | what it is |
//! |---|---|
//! | [`LineReader`], [`LineWriter`] | messages as lines, bounded in both directions |
//! | [`serve_agent_sdk`], [`SdkArgs`], [`SdkOptions`] | the protocol of the Claude Agent SDKs, in the place of their own program |
//!
//! # What this crate must never know
//!
//! No argument, no environment variable and no settings file: the program hands in a launcher of conversations, and the
//! streams or sockets to listen on.

mod agent_sdk;
mod lines;

pub use agent_sdk::{NoticeSink, SdkArgs, SdkError, SdkOptions, serve_agent_sdk};
pub use lines::{LineError, LineReader, LineWriter, MAX_LINE_BYTES};
