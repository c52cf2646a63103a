//! Transcripts of other agents, and exports of zk, as entries.

mod claude;
mod codex;
pub(crate) mod detect;
mod lines;
mod opencode;
mod outcome;
mod pi;
pub(crate) mod places;
mod session_builder;
pub(crate) mod transcript;
mod value;
mod zk;
