//! The command line: what was written ([`cli`], with [`actions`] for its commands) and what it means ([`task`]).

pub(crate) mod actions;
pub(crate) mod candidates;
pub(crate) mod cli;
pub(crate) mod completion;
pub(crate) mod ext;
pub(crate) mod fleet;
mod groups;
pub(crate) mod help;
pub(crate) mod memory;
pub(crate) mod replay;
pub(crate) mod session_care;
pub(crate) mod task;

pub(crate) use task::{Format, Job, Prompt, Request, Resume, Task};
