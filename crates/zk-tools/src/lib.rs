//! Built-in tools of zk, and the policies for their results.
//!
//! | tool | effect |
//! |---|---|
//! | `read_file` | shows pages of a text file with line numbers, images, PDFs and the cells of notebooks |
//! | `recall` | shows pages of outputs that were too long for their result |
//! | `write_file` | creates or replaces a file |
//! | `edit`, `multi_edit` | replace text in a file, and change no other byte |
//! | `shell` | runs a command and returns the end of its output |
//! | `jobs` | lists, reads, awaits and ends background commands of `shell` |
//! | `grep`, `glob`, `list_files` | find text, files and names |
//! | `todo_write`, `todo_read` | keep a to-do list with the conversation |
//! | `fetch` | gets a page of the public web as Markdown (feature `fetch`, [`FetchPlugin`]) |
//! | `ask_user`, `present_plan` | ask the person, or present a plan for approval |
//! | `wait` | parks a run that outlives its worker for some time |
//!
//! [`ToolsPlugin`] registers the tools. [`Spill`] is a separate policy plugin that moves huge results to
//! files. An agent offers tools with effects only if a gate decides on their calls, such as that of
//! `zk-permission`.
//!
//! Files are reached through the service `dyn Files`, and commands run through `dyn Exec`: the host that
//! provides these services decides on which machine.
//!
//! # Example
//!
//! `cargo run -p zk-harness-tools --example tools`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/tools.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No agent, no provider, no session and no other crate of zk but `zk-core`, and `zk-auth` with the feature
//! `fetch`. Tools open files only through `dyn Files`; [`Spill`] writes only to the directory that its host
//! names. The crate starts no process, reads no environment and prints nothing.

mod args;
mod files;
mod guidance;
mod limits;
mod options;
mod person;
mod plugin;
mod policy;
pub mod settings;
mod shell;
mod text;
mod todo;
mod tool_names;
mod tool_support;
#[cfg(feature = "fetch")]
mod web;

pub use files::edit::{Edit, MultiEdit};
pub use files::glob::Glob;
pub use files::grep::Grep;
pub use files::list_files::ListFiles;
pub use files::read_file::ReadFile;
pub use files::read_state::ReadState;
pub use files::write_file::WriteFile;
pub use options::{NAMES, Presence, ToolsOptions};
pub use person::{AskUser, InteractionTool, PlanModes, PresentPlan, Wait};
pub use plugin::ToolsPlugin;
pub use policy::{
    Certainty, Compress, CompressLimits, Compression, LearnedRule, LearnedRules, OutputCompressed,
    OutputHandles, RedactResults, Spill, VisibleTags,
};
pub use shell::command_output::CommandOutput;
pub use shell::jobs::{JobHandover, JobInfo, JobPhase, Jobs, JobsTool};
pub use shell::output::OutputDir;
pub use shell::recall::Recall;
pub use shell::{LostSandbox, Shell};
pub use todo::{Todo, TodoRead, TodoStatus, TodoWrite, Todos};
#[cfg(feature = "fetch")]
pub use web::{Fetch, FetchOptions, FetchPlugin};
