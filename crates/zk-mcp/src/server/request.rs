//! Requests to a server over its current connection.

use std::fmt;
use std::sync::Arc;

use zk_core::kernel::Cx;
use zk_core::model::{ToolError, ToolErrorKind};

use super::Server;
use crate::client::{CallEnd, Connection};

/// Failure of a request to a server.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The server cannot be used; the message names it.
    Unavailable(ToolError),
    /// The request failed, was stopped, or timed out.
    Ended(CallEnd),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(error) => f.write_str(&error.message),
            Self::Ended(end) => end.fmt(f),
        }
    }
}

impl Server {
    /// Sends a request over a connection with accepted tools. A request that the server did not carry out,
    /// because it lost the session or requires other headers, is repeated once over the next connection; so
    /// is a request without side effects (`reads`) if the server lost the session before it answered.
    pub(crate) async fn request<T, F>(
        &self,
        cx: &Cx,
        reads: bool,
        send: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, RequestError>
    where
        F: Future<Output = Result<T, CallEnd>>,
    {
        let mut is_repeated = false;
        loop {
            let connection = tokio::select! {
                connection = self.connection_for_call() => connection.map_err(RequestError::Unavailable)?,
                () = cx.stop_token().cancelled() => return Err(RequestError::Ended(CallEnd::Stopped)),
            };
            match send(connection.clone()).await {
                Ok(result) => {
                    self.record_success();
                    return Ok(result);
                }
                // The list of tools also defines headers, so it is listed and compared again, as for a
                // restarted server.
                Err(end @ (CallEnd::Headers(_) | CallEnd::SessionEnded)) if !is_repeated => {
                    is_repeated = true;
                    if let CallEnd::Headers(_) = end {
                        connection.changed().record_tools_changed();
                    }
                }
                Err(CallEnd::Interrupted) if reads && !is_repeated => is_repeated = true,
                Err(end) => {
                    if let CallEnd::SignIn = end {
                        self.announce_sign_in().await;
                    }
                    return Err(RequestError::Ended(end));
                }
            }
        }
    }

    /// Converts a failed request to a tool error with the next step for the model; `reads` marks a request
    /// without side effects.
    pub(crate) fn tool_error(&self, error: RequestError, reads: bool) -> ToolError {
        let end = match error {
            RequestError::Unavailable(error) => return error,
            RequestError::Ended(end) => end,
        };
        let kind = match &end {
            CallEnd::TimedOut(_) => ToolErrorKind::TimedOut,
            CallEnd::Stopped => ToolErrorKind::Aborted,
            CallEnd::SignIn => ToolErrorKind::Denied,
            CallEnd::Refused(_)
            | CallEnd::Headers(_)
            | CallEnd::Closed(_)
            | CallEnd::Unreached(_)
            | CallEnd::SessionEnded
            | CallEnd::Interrupted
            | CallEnd::Strange(_)
            | CallEnd::List(_) => ToolErrorKind::Failed,
        };
        let name = self.name();
        let next = match &end {
            CallEnd::SignIn if self.config.takes_sign_in() => format!(": `zk mcp login {name}`"),
            CallEnd::SignIn => "; ask the user to sign in".to_owned(),
            CallEnd::Refused(_) => "; correct the call, or do it another way".to_owned(),
            CallEnd::TimedOut(_) | CallEnd::Closed(_) | CallEnd::Interrupted if !reads => {
                "; outcome unknown: look whether it was carried out before you try again".to_owned()
            }
            CallEnd::TimedOut(_)
            | CallEnd::Closed(_)
            | CallEnd::Interrupted
            | CallEnd::Unreached(_)
            | CallEnd::SessionEnded => "; try again, or do it another way".to_owned(),
            CallEnd::Headers(_) | CallEnd::Strange(_) | CallEnd::List(_) => {
                "; do it another way, or tell the user".to_owned()
            }
            CallEnd::Stopped => String::new(),
        };
        ToolError::new(kind, format!("MCP server {name}: {end}{next}"))
    }
}
