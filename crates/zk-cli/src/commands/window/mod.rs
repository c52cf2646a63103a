//! `zk context` and `zk prompt`: the content of the context window.

mod context;
mod prompt;

pub(crate) use context::context;
pub(crate) use prompt::prompt_command;
