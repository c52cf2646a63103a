use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::settings::LayerValues;

/// Settings of the command line, kept for rereading.
#[derive(Debug, Default)]
pub(crate) struct Launch {
    /// Settings of the command line, as a layer.
    pub(crate) given: LayerValues,
    pub(crate) config: Option<PathBuf>,
    /// Servers of the project's `.mcp.json` that are started without an approval.
    pub(crate) trust_mcp: Vec<String>,
    /// Additional files with servers, named by the person.
    pub(crate) mcp_configs: Vec<PathBuf>,
    /// Names of the only MCP servers to start; `None` for all.
    pub(crate) only_servers: Option<BTreeSet<String>>,
    /// Directories of bundles for this start only.
    pub(crate) plugin_dirs: Vec<PathBuf>,
    /// The sub-agents, as they were given.
    pub(crate) agents: Option<String>,
    /// Additional working directories.
    pub(crate) add_dirs: Vec<PathBuf>,
    /// Working directories that were added during the conversation, canonical.
    pub(crate) added_dirs: Mutex<Vec<PathBuf>>,
}
