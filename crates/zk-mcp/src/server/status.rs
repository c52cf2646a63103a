use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// Status of a server, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// The server.
    pub server: String,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// State of the server.
    pub state: ServerState,
    /// Tools of the server by their canonical names, as far as they were listed.
    pub tools: Vec<String>,
}

/// State of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ServerState {
    /// Server that is being started.
    Starting,
    /// Server that can be used.
    Ready {
        /// The revision of the protocol that it speaks.
        protocol: String,
    },
    /// Server whose tools are not those that were accepted.
    Quarantined {
        /// Changes since the accepted list, one line for each.
        changes: Vec<String>,
        /// Digest that a person names to accept exactly these tools; empty if the server did not list them.
        digest: String,
    },
    /// Server that cannot be used.
    Failed {
        /// Cause of the failure.
        error: String,
    },
    /// Server that was ended with the conversation.
    Closed,
}

/// Stage at which a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureStage {
    /// Start: its program was not started, or its address not reached.
    Start,
    /// Agreement on the protocol.
    Handshake,
    /// Listing of its tools.
    List,
    /// Connection: the server ended, or closed it.
    Connection,
    /// Sign-in: the server wants one of a person.
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

/// Failure of a server that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// The server.
    pub server: String,
    /// Stage that failed.
    pub stage: FailureStage,
    /// Time until the failure.
    pub elapsed: Duration,
    /// Cause of the failure.
    pub why: String,
    /// The end of what its program printed to standard error.
    pub said: String,
}

impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, stage, elapsed, why, said } = self;
        let seconds = elapsed.as_secs_f64();
        match stage {
            FailureStage::Start => write!(f, "MCP server {server} did not start: {why}")?,
            FailureStage::Handshake | FailureStage::List | FailureStage::Connection | FailureStage::Auth => {
                write!(f, "MCP server {server} cannot be used: {stage} failed after {seconds:.1} s: {why}")?;
            }
        }
        if !said.is_empty() {
            write!(f, "; it said: {said}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ServerFailure {}
