//! The protocols: one folder for each.

pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod gemini;
pub(crate) mod ollama;
pub(crate) mod responses;
