//! The `zk` program as a library: it reads the command line, the settings and the environment, puts the crates of zk
//! together, and shows what happens. A team's own program is [`Zk::builder`] with its vendors, providers and plugins.
//!
//! Only this crate reads the environment or settings files, prints, or exits.
//!
//! # Example
//!
//! `cargo run -p zk-cli --example embed`
//!
#![doc = "```ignore"]
#![doc = include_str!("../examples/embed.rs")]
#![doc = "```"]
//!
//! # What this crate must never know
//!
//! How a model is spoken to, how a tool does its work, how a turn goes, how a session is stored. It chooses,
//! composes and shows; `compose.rs` is the one list of plugins. No other crate of zk knows it.

mod additions;
mod agents;
mod app;
mod args;
mod audit;
mod behavior;
mod blobs;
mod builder;
mod commands;
mod compaction;
mod compose;
mod containment;
mod cost_records;
mod credentials;
mod debug_dump;
mod demo;
mod dirs;
mod doctor;
mod endpoint;
mod env;
mod exit;
mod far_host;
mod hardening;
mod held;
mod hooks;
mod last_words;
mod launch;
mod mcp;
mod mode;
mod model_name;
mod output;
mod own_files;
mod place;
mod policy;
mod program;
mod prompt;
mod reads;
mod sandbox;
mod session_switch;
mod sessions;
mod settings;
mod shared_lines;
mod signals;
mod skills;
mod stdin;
mod term;
mod trust;

pub use builder::{Zk, ZkBuilder};

/// Reference pages of the program in Markdown, by their paths in the repository: what can be set, and its command line.
#[doc(hidden)]
#[must_use]
pub fn reference_pages() -> std::collections::BTreeMap<&'static str, String> {
    let settings = format!(
        "# Settings\n\n{}\n{}",
        "Keys of `~/.config/zk/settings.toml`, of a project's `.zk/settings.toml` and `.zk/settings.local.toml`, of presets, and of\n\
         the file that `--config` names. `zk config show --origin` prints what holds and from where; `zk config keys` prints this\n\
         page. `[hooks]` has a [page of its own](hooks.md), and so have [MCP servers](mcp.md) and the [sandbox](sandbox.md).",
        settings::reference()
    );
    [("docs/settings.md", settings), ("docs/cli.md", args::help::reference())].into()
}
