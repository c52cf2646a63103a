use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// How a server is, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// The server.
    pub server: String,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// What it does.
    pub state: ServerState,
    /// Its tools by their canonical names, as far as they were listed.
    pub tools: Vec<String>,
}

/// What a server does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ServerState {
    /// It is being started.
    Starting,
    /// It can be used.
    Ready {
        /// The revision of the protocol that it speaks.
        protocol: String,
    },
    /// Its tools are not those that were accepted.
    Quarantined {
        /// What changed, one line for each change.
        changes: Vec<String>,
        /// What a person names to accept exactly these tools; empty if the server did not list them.
        digest: String,
    },
    /// It cannot be used.
    Failed {
        /// Why.
        error: String,
    },
    /// It was ended with the conversation.
    Closed,
}

/// What failed of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureStage {
    /// Its program was not started, or its address not reached.
    Start,
    /// It did not agree on the protocol.
    Handshake,
    /// It did not list its tools.
    List,
    /// It ended, or closed the connection.
    Connection,
    /// It wants a person to sign in.
    Auth,
}

impl fmt::Display for FailureStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Handshake => "handshake",
            Self::List => "listing its tools",
            Self::Connection => "connection",
            Self::Auth => "sign-in",
        })
    }
}

/// Why a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// The server.
    pub server: String,
    /// What failed.
    pub stage: FailureStage,
    /// How long that took.
    pub elapsed: Duration,
    /// Why.
    pub why: String,
    /// The end of what its program printed to standard error.
    pub said: String,
}

impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, stage, elapsed, why, said } = self;
        let seconds = elapsed.as_secs_f64();
        write!(f, "MCP server {server} cannot be used: {stage} failed after {seconds:.1} s: {why}")?;
        if !said.is_empty() {
            write!(f, "; it said: {said}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ServerFailure {}
