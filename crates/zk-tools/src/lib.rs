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
//! [`ToolsPlugin`] registers them. Two policies go with them, each a plugin of its own: [`PermissionGate`] asks
//! before a call that changes something, [`Spill`] moves huge results to files.
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
//! No agent, no provider, no session and no other crate of zk but `zk-core`. Its tools open files by `dyn Files`
//! only; [`Spill`] writes to the one directory its host names. It starts no process, reads no environment and
//! prints nothing.

mod args;
mod caps;
mod command_output;
mod diff;
mod edit;
#[cfg(feature = "fetch")]
mod fetch;
mod fingerprint;
mod glob;
mod grep;
mod guidance;
mod jobs;
mod list_files;
mod media;
mod notebook;
mod options;
mod output;
mod pdf;
mod person;
mod plugin;
mod policy;
mod read_file;
mod read_state;
mod recall;
pub mod settings;
mod shell;
mod text;
mod todo;
mod tool_names;
mod walk;
mod work;
mod write_file;

pub use command_output::CommandOutput;
pub use edit::{Edit, MultiEdit};
#[cfg(feature = "fetch")]
pub use fetch::{Fetch, FetchOptions, FetchPlugin};
pub use glob::Glob;
pub use grep::Grep;
pub use jobs::{JobHandover, JobInfo, JobPhase, Jobs, JobsTool};
pub use list_files::ListFiles;
pub use options::{NAMES, ToolsOptions};
pub use output::OutputDir;
pub use person::{AskUser, InteractionTool, PlanModes, PresentPlan};
pub use plugin::ToolsPlugin;
pub use policy::{
    Compress, Compression, OutputCompressed, OutputHandles, PermissionControl, PermissionGate,
    PermissionMode, RedactResults, Spill, VisibleTags,
};
pub use read_file::ReadFile;
pub use read_state::ReadState;
pub use recall::Recall;
pub use shell::{LostSandbox, Shell};
pub use todo::{Todo, TodoRead, TodoStatus, TodoWrite, Todos};
pub use write_file::WriteFile;
