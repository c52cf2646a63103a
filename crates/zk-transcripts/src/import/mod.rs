//! Transcripts of other agents, and exports of zk, as entries.

mod claude;
mod codex;
pub(crate) mod detect;
pub(crate) mod format;
mod lines;
mod opencode;
mod outcome;
mod pi;
pub(crate) mod places;
pub(crate) mod read;
mod session_builder;
pub(crate) mod transcript;
mod value;
mod zk;
