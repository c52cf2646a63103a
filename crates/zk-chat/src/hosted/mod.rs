//! Conversations driven by other programs, without a terminal, keys or drawing.

pub(crate) mod command;
pub(crate) mod conversation;
pub(crate) mod driving;
pub(crate) mod launcher;
