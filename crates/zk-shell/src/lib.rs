//! The person's own shell with an agent of zk attached.
//!
//! The shell runs on a terminal of its own, and its bytes pass both ways unchanged. Start scripts for bash, zsh and
//! fish mark prompts, commands and their ends in the output, for zk alone; so zk knows when a line is empty, and
//! what was run. A trigger at an empty line, or a chord, draws a conversation of `zk-chat` below the prompt.
//!
//! | part | purpose |
//! |---|---|
//! | [`run`], [`ShellOptions`] | the shell, until it ends |
//! | [`CallKeys`] | keys that call the agent |
//! | [`ShellSettings`] | the section `[shell]` of the settings |
//! | [`ShellKind`] | shells with a start script, and the scripts |
//! | [`MarkScanner`], [`Mark`] | marks in the output, however it is split |
//! | [`TerminalModes`] | modes that programs set on the terminal |
//! | [`render_output`] | output as a terminal shows it |
//!
//! # Example
//!
//! `cargo run -p zk-harness-shell --example render`
//!
#![doc = "```"]
#![doc = include_str!("../examples/render.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! No model and no provider, no settings file and no argument; how a run goes, how a conversation is drawn and how it
//! is stored. The program hands the environment in.

mod commands;
mod context;
mod error;
mod factory;
mod kind;
mod line;
mod marks;
mod plugin;
mod pump;
mod record;
mod session;
mod settings;
mod shell_access;
mod start;
mod tools;

pub use error::ShellError;
pub use kind::{ShellKind, UnknownShell};
pub use line::CallKeys;
pub use marks::{Mark, MarkScanner, MarkSink, TerminalModes, TextSource};
pub use record::render_output;
pub use session::{ShellOptions, run};
pub use settings::{ChordKey, ShellSettings, TriggerKey, UnusableKey};
pub use start::INSTANCE_VARIABLE;
