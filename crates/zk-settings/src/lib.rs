//! Settings of zk: typed sections, layered values with their origins, and project files that need approval.
//!
//! | item | what it is |
//! |---|---|
//! | [`Schema`] | the schema of all settings: the sections of all crates at their tables |
//! | [`MergedSettings`] | the checked values of all layers with their origins, readable as sections |
//! | [`Layer`], [`Origin`] | the layers in their order, and the file, flag or variable of a value |
//! | [`LayerValues`] | single values of a layer: defaults, flags, variables |
//! | [`ProjectFile`] | a settings file of a project, used only after a person approved its bytes |
//! | [`with_value`], [`without_value`], [`renamed_key`] | changes of the text of a file, in which everything else stays |
//! | [`FormerKey`] | a key that a file sets by a name of earlier versions |
//! | [`mark`] | declarations beyond types: secrets, keys closed to projects, lists that add up, former names |
//! | [`ZkDirs`] | directories of zk's settings and state, and the files in them |
//! | [`suggest`] | suggestions for misspelt words, and lists of choices for messages |
//!
//! # Example
//!
//! `cargo run -p zk-harness-settings --example section`
//!
#![doc = "```"]
#![doc = include_str!("../examples/section.rs")]
#![doc = "```"]
//!
//! # Guarantees
//!
//! - A section is one documented struct of the crate that uses it. Checks, messages, JSON Schema and the
//!   reference page are generated from it.
//! - An invalid value is an error that names the file or the flag. An unknown key is a warning with the
//!   nearest known key, and an error in tables where ignoring it would be unsafe.
//! - Files of a project cannot set keys that its authors should not decide, and set nothing before a person
//!   approved them.
//! - Secrets are never shown; credentials are in no table.
//!
//! # What this crate must never know
//!
//! No section: the crates that use a setting define it. This crate reads no environment, no command line and
//! no directory: callers pass paths and variables in.

mod dirs;
mod edit;
mod error;
mod expect;
mod file;
mod former;
mod json;
mod layers;
mod merged;
mod node;
mod project;
mod schema;
mod section;
/// Suggestions for misspelt words, and lists of choices for messages.
pub mod suggest;
#[cfg(test)]
mod tests;
mod values;

pub use dirs::ZkDirs;
pub use edit::{EditError, renamed_key, with_value, without_value};
pub use error::SettingsError;
pub use file::{FileRead, TextRead, read_file, read_preset, read_text};
pub use former::FormerKey;
pub use json::to_json;
pub use layers::{Entry, Layer, Origin, dotted, flatten};
pub use merged::{Appended, MergedSettings, Precedence};
pub use node::mark;
pub use project::ProjectFile;
pub use schema::{Check, CheckRule, DuplicateKey, Schema};
pub use values::LayerValues;
