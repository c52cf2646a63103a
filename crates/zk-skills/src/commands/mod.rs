//! Slash commands in files.

pub(crate) mod arguments;
pub(crate) mod builtin;
pub(crate) mod command_files;
pub(crate) mod interpolate;
pub(crate) mod prompt_command;
