use serde::Serialize;
use zk_core::kernel::{Event, Notify};

use crate::server::status::FailureStage;

macro_rules! notify {
    ($event:ident, $name:literal) => {
        impl Event for $event {
            const NAME: &'static str = $name;
            // A server starts and ends independently of the run that needs it.
            const CANCELLABLE: bool = false;
            type Reply = ();
            type Mode = Notify;
        }
    };
}

/// The start of a server was attempted, for the first time or again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpBootstrapStart {
    /// Name of the server.
    pub server: String,
    /// `stdio` or `http`.
    pub transport: String,
    /// Number of the attempt since the server last worked, from 1.
    pub attempt: u32,
}
notify!(McpBootstrapStart, "mcp:bootstrap:start");

/// An attempt to start a server ended; one event for each `mcp:bootstrap:start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpBootstrapEnd {
    /// Name of the server.
    pub server: String,
    /// Duration of the attempt in milliseconds.
    pub duration_ms: u64,
    /// Whether the server's tools can be used.
    pub ok: bool,
    /// Number of the server's tools.
    pub tools: usize,
    /// Description of the failure, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
notify!(McpBootstrapEnd, "mcp:bootstrap:end");

/// A server is ready: it was started, or its tools were accepted again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpConnect {
    /// Name of the server.
    pub server: String,
    /// Protocol revision that was agreed on.
    pub protocol: String,
    /// Canonical names of the server's tools.
    pub tools: Vec<String>,
}
notify!(McpConnect, "mcp:connect");

/// A server cannot be used, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpError {
    /// Name of the server.
    pub server: String,
    /// Stage that failed.
    pub stage: FailureStage,
    /// Description of the failure, for a person.
    pub error: String,
    /// Milliseconds until the next attempt, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
}
notify!(McpError, "mcp:error");

/// A server requires a sign-in, or more scopes than its token has. No page is opened automatically.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpAuthRequired {
    /// Name of the server.
    pub server: String,
    /// Scopes that the token has to have, as far as the server states them.
    pub scopes: Vec<String>,
}
notify!(McpAuthRequired, "mcp:auth:required");

/// The skills of a server were listed, or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpSkills {
    /// Name of the server.
    pub server: String,
    /// Names of the server's skills.
    pub skills: Vec<String>,
}
notify!(McpSkills, "mcp:skills");

/// A sign-in began: the person has to open this address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpAuthUrl {
    /// Name of the server.
    pub server: String,
    /// Address of the sign-in page.
    pub url: String,
}
notify!(McpAuthUrl, "mcp:auth:url");

/// A person signed in to a server, and the tokens were stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpAuthSuccess {
    /// Name of the server.
    pub server: String,
}
notify!(McpAuthSuccess, "mcp:auth:success");

/// A sign-in failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpAuthError {
    /// Name of the server.
    pub server: String,
    /// Description of the failure, for a person.
    pub error: String,
}
notify!(McpAuthError, "mcp:auth:error");

/// The tools of a server differ from the accepted list. None of them can be called until a person accepts
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpQuarantine {
    /// Name of the server.
    pub server: String,
    /// Changes since the accepted list, one line for each, with invisible characters made visible.
    pub changes: Vec<String>,
    /// Digest that a person has to name to accept exactly these tools; empty if the server did not list them.
    pub digest: String,
}
notify!(McpQuarantine, "mcp:quarantine");
