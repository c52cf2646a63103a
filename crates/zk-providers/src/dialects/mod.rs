//! The protocols, one module each, and what combines them.

pub(crate) mod anthropic;
pub(crate) mod chat;
mod from_vendor;
pub(crate) mod gemini;
pub(crate) mod ollama;
mod replay;
pub(crate) mod responses;
