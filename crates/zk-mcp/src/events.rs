use serde::Serialize;
use zk_core::kernel::{Event, Notify};

use crate::server::status::FailureStage;

macro_rules! notify {
    ($event:ident, $name:literal) => {
        impl Event for $event {
            const NAME: &'static str = $name;
            // A server starts and ends whether or not the run that needs it goes on.
            const CANCELLABLE: bool = false;
            type Reply = ();
            type Mode = Notify;
        }
    };
}

/// A server is being started, or tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpBootstrapStart {
    /// The server.
    pub server: String,
    /// `stdio` or `http`.
    pub transport: String,
    /// Number of the attempt since the server last worked, from 1.
    pub attempt: u32,
}
notify!(McpBootstrapStart, "mcp:bootstrap:start");

/// The start of a server is over, well or not; there is one for each `mcp:bootstrap:start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpBootstrapEnd {
    /// The server.
    pub server: String,
    /// Duration of the start, in milliseconds.
    pub duration_ms: u64,
    /// Whether its tools can be used.
    pub ok: bool,
    /// Number of its tools.
    pub tools: usize,
    /// Cause of the failure, in words for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
notify!(McpBootstrapEnd, "mcp:bootstrap:end");

/// A server can be used: it was started, or its tools are accepted again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpConnect {
    /// The server.
    pub server: String,
    /// The revision of the protocol that it speaks.
    pub protocol: String,
    /// Tools of the server by their canonical names.
    pub tools: Vec<String>,
}
notify!(McpConnect, "mcp:connect");

/// A server cannot be used, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpError {
    /// The server.
    pub server: String,
    /// Stage that failed.
    pub stage: FailureStage,
    /// Cause of the failure, in words for a person.
    pub error: String,
    /// Milliseconds until it is tried again, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
}
notify!(McpError, "mcp:error");

/// A server wants a person to sign in, or to let zk do more than before. Nothing opens by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpAuthRequired {
    /// The server.
    pub server: String,
    /// Scopes that the token has to be good for, as far as the server says.
    pub scopes: Vec<String>,
}
notify!(McpAuthRequired, "mcp:auth:required");

/// The skills of a server are listed, or are others than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpSkills {
    /// The server.
    pub server: String,
    /// The names of its skills.
    pub skills: Vec<String>,
}
notify!(McpSkills, "mcp:skills");

/// A sign-in began: the person goes to this address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpAuthUrl {
    /// The server.
    pub server: String,
    /// The address.
    pub url: String,
}
notify!(McpAuthUrl, "mcp:auth:url");

/// A person signed in to a server; the tokens are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpAuthSuccess {
    /// The server.
    pub server: String,
}
notify!(McpAuthSuccess, "mcp:auth:success");

/// A sign-in ended without tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpAuthError {
    /// The server.
    pub server: String,
    /// Cause of the failure, in words for a person.
    pub error: String,
}
notify!(McpAuthError, "mcp:auth:error");

/// The tools of a server are not those that were accepted: none of them can be called until a person accepts them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpQuarantine {
    /// The server.
    pub server: String,
    /// Changes since the accepted list, one line for each, every character in it visible.
    pub changes: Vec<String>,
    /// Digest that a person names to accept exactly these tools; empty if the server did not list them.
    pub digest: String,
}
notify!(McpQuarantine, "mcp:quarantine");
