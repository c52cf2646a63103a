//! Sections of the settings about backends: `[backend]` and `[backends.NAME]`.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

/// Backend that conversations begin with.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BackendChoice {
    /// Backend that answers in new conversations; `zk` is the built-in agent.
    #[schemars(extend("x-by-projects" = false))]
    pub default: Option<String>,
}

/// An agent that speaks the Agent Client Protocol.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BackendSettings {
    /// Program of the agent with its arguments.
    #[schemars(extend("x-by-projects" = false))]
    pub acp: Vec<String>,
    /// Hosts that the agent reaches from its sandbox.
    #[schemars(extend("x-by-projects" = false))]
    pub hosts: Vec<String>,
    /// Variables of the agent's process.
    #[schemars(extend("x-secret" = true, "x-by-projects" = false))]
    pub env: BTreeMap<String, String>,
    /// Whether the agent runs in the sandbox, where there is one.
    #[schemars(extend("x-by-projects" = false))]
    pub sandbox: Option<bool>,
}

impl fmt::Debug for BackendSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Variables may be secret.
        f.debug_struct("BackendSettings").field("acp", &self.acp).finish_non_exhaustive()
    }
}
