use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::settings::LayerValues;

/// Settings of the command line, kept so that they can be read again.
#[derive(Debug, Default)]
pub(crate) struct Launch {
    /// Settings of the command line, as a layer.
    pub(crate) given: LayerValues,
    pub(crate) config: Option<PathBuf>,
    /// Servers of the project's `.mcp.json` to start although nobody approved them.
    pub(crate) trust_mcp: Vec<String>,
    /// Files of more servers, which the person named.
    pub(crate) mcp_configs: Vec<PathBuf>,
    /// MCP servers that are the only ones; nothing for all.
    pub(crate) only_servers: Option<BTreeSet<String>>,
    /// Directories of bundles to use for this once.
    pub(crate) plugin_dirs: Vec<PathBuf>,
    /// The sub-agents, as they were given.
    pub(crate) agents: Option<String>,
    /// Directories to work in beside the first.
    pub(crate) add_dirs: Vec<PathBuf>,
    /// Directories that were added since, canonical.
    pub(crate) added_dirs: Mutex<Vec<PathBuf>>,
}
