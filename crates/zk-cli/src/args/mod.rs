//! The command line: what was written ([`raw`]) and what it means ([`meaning`]).

pub(crate) mod meaning;
pub(crate) mod raw;

pub(crate) use meaning::{Format, Job, Prompt, Resume, Task};
