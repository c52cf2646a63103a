use std::path::PathBuf;

use clap::Args;

use crate::cli::GLOBAL;
use crate::launch::StartScope;

/// Servers and plugins that the person names for one start.
#[derive(Args, Debug, Default)]
pub struct NamedSources {
    /// MCP servers for this once, over those of the settings: a file like .mcp.json; may be repeated
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub mcp_config: Vec<PathBuf>,

    /// Keep sessions here: sqlite, memory, files:PATH, http://127.0.0.1:PORT (of `zk serve-sessions`), postgres://…
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "STORE")]
    pub session_store: Option<String>,

    /// A plugin's directory to use for this once, without adding it; may be repeated
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "DIR")]
    pub plugin_dir: Vec<PathBuf>,
}

/// Sources that a start leaves out.
#[derive(Args, Debug, Default)]
pub struct LeftOutSources {
    /// Use nothing of this project: no settings, hooks, instructions, memory, skills, agents, servers, plugins
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub safe_mode: bool,

    /// Use settings and keys alone: nothing of the project, and no hooks, instructions, memory, skills, agents,
    /// servers or plugins that the command line does not name
    #[arg(long, global = true, help_heading = GLOBAL, conflicts_with = "safe_mode")]
    pub bare: bool,
}

impl LeftOutSources {
    /// Sources that are used.
    pub(crate) fn scope(&self) -> StartScope {
        match (self.bare, self.safe_mode) {
            (true, _) => StartScope::Bare,
            (false, true) => StartScope::WithoutProject,
            (false, false) => StartScope::All,
        }
    }
}

/// Conditions on the end of a run without a person.
#[derive(Args, Debug, Default)]
pub struct RunEnds {
    /// With --print, have the answer follow this JSON Schema of an object
    #[arg(long, value_name = "FILE")]
    pub json_schema: Option<PathBuf>,

    /// With --print, go on by itself until this goal is reached: exit code 0 then, 1 without progress, 3 at a cap
    #[arg(long, value_name = "TEXT", conflicts_with = "json_schema")]
    pub goal: Option<String>,
}

/// Records that zk keeps of what it does.
#[derive(Args, Debug, Default)]
pub struct RecordFiles {
    /// Keep nothing of this conversation on disk
    #[arg(long, conflicts_with_all = ["resume", "continue_"])]
    pub no_session: bool,

    /// Write requests, compactions and what had to be repaired to files in this directory, without secrets
    #[arg(long, value_name = "DIR")]
    pub debug_dump: Option<String>,

    /// Write what zk does to a log: error, warn, info, debug or trace; without a file to logs/zk.log of its state
    #[cfg(feature = "otel")]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "LEVEL[=FILE]")]
    pub log: Option<String>,
}
