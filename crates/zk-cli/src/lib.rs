//! The `zk` program as a library: it reads the command line, the settings and the environment, puts the crates of zk
//! together, and shows what happens. A team's own program is [`Zk::builder`] with its vendors, providers and plugins.
//!
//! Only this crate reads the environment or settings files, or exits; only it and `zk-tui` print.
//!
//! # Example
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     zk_cli::Zk::builder().run()
//! }
//! ```
//!
//! # What this crate must never know
//!
//! How a model is spoken to, how a tool does its work, how a turn goes, how a session is stored. It chooses,
//! composes and shows; `compose/mod.rs` is the one list of plugins. No other crate of zk knows it.

mod commands;
mod compose;
mod context;
mod endpoint;
mod host;
mod mode;
mod program;
mod settings;
mod walls;

pub use program::builder::{Zk, ZkBuilder};

use compose::{agents, bundles, mcp, prompt, session_switch, sessions, skills};
use context::{app, configure, session_stores};
use endpoint::{credentials, kept, parts, select};
use host::{exit, hardening, signals};
use program::additions;
use walls::{containment, place, policy, sandbox};
use zk_args as args;

/// Returns the reference pages of the settings and the command line in Markdown, by their paths in the
/// repository.
#[must_use]
#[doc(hidden)]
pub fn reference_pages() -> std::collections::BTreeMap<&'static str, String> {
    let settings = format!(
        "# Settings\n\n{}\n{}",
        "Keys of `~/.config/zk/settings.toml`, of a project's `.zk/settings.toml` and `.zk/settings.local.toml`, of presets, and of\n\
         the file that `--config` names. `zk config show --origin` prints what holds and from where; `zk config keys` prints this\n\
         page. `[hooks]` has a [page of its own](hooks.md), and so have [MCP servers](mcp.md), `[[extensions]]` (in\n\
         [extensions](extensions.md)), `plugin_dirs` of a project (in [plugins](plugins.md#plugins-of-a-project)) and the [sandbox](sandbox.md).",
        settings::reference()
    );
    [
        ("docs/settings.md", settings),
        ("docs/cli.md", args::help::reference()),
        ("docs/reference/exit-codes.md", args::exit_reference()),
    ]
    .into()
}
