//! Commands that show information about the conversation and its parts.

mod agents;
mod cost;
mod export;
mod info_command;
mod info_context;
mod settings;
mod side_question;
mod status;

pub(crate) use info_command::info_commands;
pub(crate) use info_context::InfoContext;
