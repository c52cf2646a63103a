use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// Status of a server, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// Name of the server.
    pub server: String,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// State of the server.
    pub state: ServerState,
    /// Canonical names of the server's tools, as far as listed.
    pub tools: Vec<String>,
}

impl ServerStatus {
    /// Server and state in a few words, such as `files 14 tools`.
    #[must_use]
    pub fn brief(&self) -> String {
        match (&self.state, self.tools.len()) {
            (ServerState::Failed { .. } | ServerState::Quarantined { .. }, _) => format!("{} ✗", self.server),
            (ServerState::Ready { .. }, 1) => format!("{} 1 tool", self.server),
            (ServerState::Ready { .. }, count) => format!("{} {count} tools", self.server),
            (ServerState::Starting | ServerState::Closed, _) => self.server.clone(),
        }
    }
}

/// State of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ServerState {
    /// The server is being started.
    Starting,
    /// The server can be used.
    Ready {
        /// Protocol revision that was agreed on.
        protocol: String,
    },
    /// The tools of the server differ from the accepted list.
    Quarantined {
        /// Changes since the accepted list, one line for each.
        changes: Vec<String>,
        /// Digest that a person has to name to accept exactly these tools; empty if the server did not list
        /// them.
        digest: String,
    },
    /// The server cannot be used.
    Failed {
        /// Description of the failure.
        error: String,
    },
    /// The server was ended with the conversation.
    Closed,
}

/// Stage at which a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureStage {
    /// Start: the program could not be started, or the address not reached.
    Start,
    /// Negotiation of the protocol.
    Handshake,
    /// Listing of the tools.
    List,
    /// Connection: the server ended, or closed it.
    Connection,
    /// Sign-in: the server requires one.
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

/// Failure of a server, with its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// Name of the server.
    pub server: String,
    /// Stage that failed.
    pub stage: FailureStage,
    /// Time from the start of the attempt to the failure.
    pub elapsed: Duration,
    /// Description of the failure.
    pub why: String,
    /// Last lines of the program's standard error.
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
