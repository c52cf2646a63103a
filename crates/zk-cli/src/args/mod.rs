//! The command line: what was written ([`cli`]) and what it means ([`task`]).

pub(crate) mod cli;
pub(crate) mod task;

pub(crate) use task::{Format, Job, Prompt, Resume, Task};
