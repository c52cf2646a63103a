//! Settings of zk: typed sections, layered values with their origins, and project files that need approval.
//!
//! | item | what it is |
//! |---|---|
//! | [`Schema`] | the settings that there are: the sections of all crates under their tables |
//! | [`MergedSettings`] | the values of all layers, each checked and with its origin, read as sections |
//! | [`Layer`], [`Origin`] | the nine layers, and the file, flag or variable a value is from |
//! | [`LayerValues`] | values given one by one: defaults, flags, variables |
//! | [`ProjectFile`] | a file of a project, which counts only once a person approved exactly its bytes |
//! | [`mark`] | what a section can declare beside types: secrets, keys that projects cannot set, lists that add up |
//! | [`suggest`] | the nearest word, and choices as a sentence |
//!
//! # Example
//!
//! `cargo run -p zk-settings --example section`
//!
#![doc = "```"]
#![doc = include_str!("../examples/section.rs")]
#![doc = "```"]
//!
//! # What it keeps
//!
//! - A section is one documented struct of the crate that uses it: checks, messages, JSON Schema and the reference page are
//! A section is one documented struct of the crate that uses it. Checks, messages, JSON Schema and the
//! reference page are generated from it.
//! - A value that cannot be used is an error that names the file or the flag; a key that nobody knows is a warning with the
//!   nearest one, and an error in tables where it would leave a door open.
//! - A project's files set nothing that its author should not decide, and nothing before a person approved them.
//! - Secrets are never shown; credentials are in no table.
//!
//! # What this crate must never know
//!
//! No section: what can be set is told by the crates that use it. It reads no environment, no command line and no directory of
//! its own: paths and variables are handed in.

mod error;
mod expect;
mod file;
mod json;
mod layers;
mod merged;
mod node;
mod project;
mod schema;
/// Suggestions for misspelt words, and lists of choices for messages.
pub mod suggest;
#[cfg(test)]
mod tests;
mod values;

pub use error::SettingsError;
pub use file::{FileRead, TextRead, read_file, read_preset, read_text};
pub use json::to_json;
pub use layers::{Entry, Layer, Origin, dotted, flatten};
pub use merged::{Appended, MergedSettings, Precedence};
pub use node::mark;
pub use project::ProjectFile;
pub use schema::{Check, CheckRule, DuplicateKey, Schema};
pub use values::LayerValues;
