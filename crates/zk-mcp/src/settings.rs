//! Section of the settings about MCP servers: `[mcp]`.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::exposure::ServerTrust;
use crate::config::server_config::{ServerDisclosure, ServerPermission};

/// MCP servers, and the treatment of all of them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct McpSettings {
    /// Time that the first prompt waits for servers, in milliseconds.
    pub wait: Option<u32>,
    /// Whether the model gets all tools at once, or only those it searches for.
    pub disclosure: Option<ServerDisclosure>,
    /// Maximum size of the tools, in tokens, for giving the model all of them.
    #[schemars(range(min = 1))]
    pub eager_tokens: Option<u32>,
    /// Program with its arguments that opens pages for signing in.
    #[schemars(extend("x-by-projects" = false))]
    pub opener: Vec<String>,
    /// Address of the client's metadata for servers without registration.
    #[schemars(extend("x-by-projects" = false))]
    pub client_metadata_url: Option<String>,
    /// Servers by their names.
    pub servers: BTreeMap<String, ServerSettings>,
}

impl McpSettings {
    /// Returns the time that the first prompt waits for servers.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.wait.map(|milliseconds| Duration::from_millis(milliseconds.into()))
    }
}

/// One MCP server as `[mcp.servers.NAME]` describes it.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerSettings {
    /// Transport, if neither `command` nor `url` determines it.
    #[serde(rename = "type")]
    kind: Option<TransportName>,
    /// Program of a server on this machine.
    command: Option<String>,
    /// Arguments of the program.
    args: Vec<String>,
    /// Directory that the program starts in.
    cwd: Option<String>,
    /// Variables of the program.
    #[schemars(extend("x-secret" = true))]
    env: BTreeMap<String, String>,
    /// Address of a server that is reached by HTTP.
    url: Option<String>,
    /// Headers of each request.
    #[schemars(extend("x-secret" = true))]
    headers: BTreeMap<String, String>,
    /// Sign-in at a server that is reached by HTTP.
    oauth: SignInSettings,
    /// Whether it is started.
    enabled: Option<bool>,
    /// Milliseconds without an answer and without progress after which a request fails.
    #[schemars(range(min = 1))]
    timeout: Option<u32>,
    /// Milliseconds for the calls of a tool, by the server's own name of it.
    #[schemars(with = "BTreeMap<String, NonZeroU32>")]
    tool_timeouts: BTreeMap<String, u32>,
    /// Milliseconds from its start to the list of its tools.
    #[schemars(range(min = 1))]
    start_timeout: Option<u32>,
    /// Whether the model gets its tools at once, or only those it searches for.
    disclosure: Option<ServerDisclosure>,
    /// Whether another list of tools than the accepted one stops its use.
    #[schemars(extend("x-by-projects" = false))]
    pin: Option<bool>,
    /// Trust in the server.
    #[schemars(extend("x-by-projects" = false))]
    trust: Option<ServerTrust>,
    /// Tools to use; all if absent.
    #[schemars(extend("x-by-projects" = false))]
    allow_tools: Vec<String>,
    /// Tools that are never used.
    #[schemars(extend("x-by-projects" = false))]
    deny_tools: Vec<String>,
    /// Whether its skills may be taken into use.
    #[schemars(extend("x-by-projects" = false))]
    skills: Option<ServerPermission>,
    /// Tools without side effects.
    #[schemars(extend("x-by-projects" = false))]
    read_only: Vec<String>,
    /// Whether it may ask the model in the middle of a call.
    #[schemars(extend("x-by-projects" = false))]
    sampling: Option<ServerPermission>,
}

/// Sign-in at a server that is reached by HTTP.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct SignInSettings {
    /// Name of the client at the authorisation server.
    client_id: Option<String>,
    /// Secret of the client.
    #[schemars(extend("x-secret" = true))]
    client_secret: Option<String>,
    /// Authorisation server.
    issuer: Option<String>,
    /// Requested scopes.
    scopes: Vec<String>,
    /// Port on this machine that the browser returns to.
    #[schemars(range(min = 1))]
    port: Option<u32>,
    /// Address of the client's metadata for a server without registration.
    client_metadata_url: Option<String>,
}

/// Transport as written in settings.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TransportName {
    Stdio,
    Http,
    Sse,
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values are omitted, since variables, headers and the client secret may be secret.
        f.debug_struct("ServerSettings").finish_non_exhaustive()
    }
}

impl fmt::Debug for SignInSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values are omitted, since variables, headers and the client secret may be secret.
        f.debug_struct("SignInSettings").finish_non_exhaustive()
    }
}
