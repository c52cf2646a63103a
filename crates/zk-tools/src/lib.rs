//! The built-in tools of zk and their policies.
//!
//! | tool | what it does |
//! |---|---|
//! | `read_file` | pages through a text file, lines numbered; shows images, PDFs and the cells of notebooks |
//! | `recall` | pages through outputs that were too long to be shown |
//! | `write_file` | replaces or creates a file |
//! | `edit`, `multi_edit` | replace text in a file, and nothing else in it |
//! | `shell` | runs a command, keeps the end of its output |
//! | `jobs` | lists, reads, awaits and ends the commands that `shell` started in the background |
//! | `grep`, `glob`, `list_files` | find text, files, names |
//! | `todo_write`, `todo_read` | keep a to-do list with the conversation |
//! | `fetch` | gets a page of the public web as Markdown (feature `fetch`, [`FetchPlugin`]) |
//! | `ask_user`, `present_plan` | ask the person, have a plan approved |
//!
//! [`ToolsPlugin`] registers them. A policy goes with them, a plugin of its own: [`Spill`] moves huge results to files.
//! An agent takes the tools that change something where a gate decides on their calls, such as that of `zk-permission`.
//!
//! Files are reached through the service `dyn Files`, commands run through `dyn Exec`: whoever serves those
//! decides where that is.
//!
//! # Example
//!
//! `cargo run -p zk-tools --example tools`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/tools.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No agent, no provider, no session and no other crate of zk but `zk-core`, and `zk-auth` with the feature `fetch`. Its tools open files by `dyn Files`
//! only; [`Spill`] writes to the one directory its host names. It starts no process, reads no environment and
//! prints nothing.

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
pub use options::{NAMES, ToolsOptions};
pub use person::{AskUser, InteractionTool, PlanModes, PresentPlan};
pub use plugin::ToolsPlugin;
pub use policy::{Compress, Compression, OutputCompressed, OutputHandles, RedactResults, Spill, VisibleTags};
pub use shell::command_output::CommandOutput;
pub use shell::jobs::{JobHandover, JobInfo, JobPhase, Jobs, JobsTool};
pub use shell::output::OutputDir;
pub use shell::recall::Recall;
pub use shell::{LostSandbox, Shell};
pub use todo::{Todo, TodoRead, TodoStatus, TodoWrite, Todos};
#[cfg(feature = "fetch")]
pub use web::{Fetch, FetchOptions, FetchPlugin};
