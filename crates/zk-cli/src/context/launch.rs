use std::path::PathBuf;

use crate::settings::LayerValues;

/// Settings of the command line, kept so that they can be read again.
#[derive(Debug, Default)]
pub(crate) struct Launch {
    pub(crate) given: LayerValues,
    pub(crate) config: Option<PathBuf>,
    pub(crate) trust_mcp: Vec<String>,
    pub(crate) mcp_configs: Vec<PathBuf>,
    /// The sub-agents, as they were given.
    pub(crate) agents: Option<String>,
    pub(crate) add_dirs: Vec<PathBuf>,
}
