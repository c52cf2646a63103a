//! The command line of the `zk` program: its grammar ([`cli`], with [`actions`] for its commands), the [`Task`] that it
//! means, help, completion, manual pages and exit codes. Nothing is carried out here.
//!
//! # Example
//!
//! ```
//! use clap::Parser;
//! use zk_args::cli::Cli;
//! use zk_args::{Job, Request};
//!
//! let cli = Cli::try_parse_from(["zk", "-p", "hello"]).unwrap();
//! let Request::Task(task) = cli.into_request().unwrap() else { panic!("a prompt is a task") };
//! assert!(matches!(task.job, Job::Prompt(prompt) if prompt.print));
//! ```
//!
//! # What this crate must never know
//!
//! Files, the environment, the terminal, and what a job does. Words for completion that need files come from the
//! program ([`KnownWords`]).

/// Commands below the commands of the program.
pub mod actions;
mod candidates;
/// Options and commands of the program.
pub mod cli;
mod completion;
mod exit;
/// Commands below `zk ext`.
pub mod ext;
/// Commands about live conversations and about runs that outlive their worker.
pub mod fleet;
/// Groups of options that belong together.
pub mod groups;
/// Help of commands, with the options that apply to each, and the reference page of the command line.
pub mod help;
mod launch;
pub mod memory;
/// Commands below `zk plugin`.
pub mod plugin;
/// Options of `zk replay`.
pub mod replay;
pub mod session_care;
mod task;

pub use candidates::{KnownWords, Shell};
pub use completion::{CompletionError, answer_shell, manual_pages, script};
pub use exit::{Exit, reference as exit_reference};
pub use launch::{Launch, StartScope};
pub use task::{Format, Job, Prompt, Request, Resume, Task, UsageError};
