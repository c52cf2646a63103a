use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;

use zk_settings::LayerValues;

/// Sources that one start uses besides the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartScope {
    /// The person's files, and those of the project that were approved.
    #[default]
    All,
    /// Nothing of the project: `--safe-mode`.
    WithoutProject,
    /// Settings and keys of the person; nothing of the project, and no hooks, instructions, commands, agents,
    /// skills, servers, extensions or plugins that the command line does not name: `--bare`.
    Bare,
}

impl StartScope {
    /// Whether approved files of the project are used.
    pub fn has_project(self) -> bool {
        match self {
            Self::All => true,
            Self::WithoutProject | Self::Bare => false,
        }
    }

    /// Whether the person's hooks, instructions, commands, agents, skills, servers and plugins are used.
    pub fn has_own_parts(self) -> bool {
        match self {
            Self::All | Self::WithoutProject => true,
            Self::Bare => false,
        }
    }

    /// Statement for the person at the start; `None` for an ordinary start.
    pub fn describe(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::WithoutProject => Some(
                "safe mode: nothing of this project is used: no settings, hooks, instructions, memory, commands, \
                 skills, agents, servers, extensions or plugins of it",
            ),
            Self::Bare => Some(
                "bare: nothing of this project is used, and of yours settings and keys alone: no hooks, \
                 instructions, memory, commands, skills, agents, servers, extensions or plugins but those of the \
                 command line",
            ),
        }
    }
}

/// Settings of the command line, kept for rereading.
#[derive(Debug, Default)]
pub struct Launch {
    /// Settings of the command line, as a layer.
    pub given: LayerValues,
    /// Settings file that `--config` names.
    pub config: Option<PathBuf>,
    /// Sources that are used besides the command line.
    pub scope: StartScope,
    /// Servers of the project's `.mcp.json` that are started without an approval.
    pub trust_mcp: Vec<String>,
    /// Additional files with servers, named by the person.
    pub mcp_configs: Vec<PathBuf>,
    /// Names of the only MCP servers to start; `None` for all.
    pub only_servers: Option<BTreeSet<String>>,
    /// Directories of bundles for this start only.
    pub plugin_dirs: Vec<PathBuf>,
    /// The sub-agents, as they were given.
    pub agents: Option<String>,
    /// Additional working directories.
    pub add_dirs: Vec<PathBuf>,
    /// Working directories that were added during the conversation, canonical.
    pub added_dirs: Mutex<Vec<PathBuf>>,
}
