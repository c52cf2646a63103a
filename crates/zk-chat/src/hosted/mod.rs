//! Conversations that other programs drive: no terminal, no keys, nothing drawn.

pub(crate) mod command;
pub(crate) mod conversation;
pub(crate) mod driving;
pub(crate) mod launcher;
