use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::wire::{Peer, RpcError};
use crate::{LineError, LineReader, LineWriter};

/// Version of the protocol that an agent has to speak.
const PROTOCOL_VERSION: u64 = 1;

/// Longest time for the answer to the first request: an agent may have to be downloaded before.
const INITIALIZE_LIMIT: Duration = Duration::from_secs(120);

/// Receiver of the messages of another program's agent: changes of its sessions, and its questions.
#[async_trait]
pub trait AcpHost: Send + Sync {
    /// Reports a change of a session. The fields come from the agent and are not trusted.
    fn update(&self, session: &str, update: &Value);

    /// Decides whether a call of the agent may run. Returns the id of the chosen option; `None` refuses the
    /// call.
    async fn permission(&self, request: &Value) -> Option<String>;
}

/// Failure of a request to an agent of another program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcpError {
    /// The agent requires a sign-in first.
    #[error("the agent wants a sign-in: {0}")]
    SignIn(String),
    /// The agent refused the request, or is gone.
    #[error("the agent refused: {0}")]
    Refused(String),
    /// The agent speaks another version of the protocol, or is no ACP agent.
    #[error("the agent does not speak version 1 of the protocol: {0}")]
    Version(String),
}

impl From<RpcError> for AcpError {
    fn from(error: RpcError) -> Self {
        match error.code {
            RpcError::SIGN_IN => Self::SignIn(error.message),
            _ => Self::Refused(error.message),
        }
    }
}

/// Connection to an agent of another program, as its editor. It offers neither files nor terminals: the agent has its own.
/// Dropping it ends the agent's input.
#[derive(Debug)]
pub struct AcpConnection {
    peer: Arc<Peer>,
    writer: LineWriter,
    reading: JoinHandle<()>,
}

impl AcpConnection {
    /// Creates a connection over the output and the input of an agent.
    pub fn new(
        from: impl AsyncRead + Send + Unpin + 'static,
        to: impl AsyncWrite + Send + Unpin + 'static,
        host: Arc<dyn AcpHost>,
    ) -> Self {
        let writer = LineWriter::new(to);
        let peer = Arc::new(Peer::new(writer.clone()));
        let reading = tokio::spawn(read(from, peer.clone(), host));
        Self { peer, writer, reading }
    }

    /// Agrees on the version, and gives the answer of the agent: its name and everything that it can do.
    ///
    /// # Errors
    /// [`AcpError::Version`] when it does not speak version 1, or says nothing for two minutes.
    pub async fn initialize(&self, version: &str) -> Result<Value, AcpError> {
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "clientInfo": { "name": "zk", "title": "zk", "version": version },
            "clientCapabilities": {},
        });
        let answer = timeout(INITIALIZE_LIMIT, self.peer.request("initialize", params)).await;
        let answer = answer.map_err(|_| AcpError::Version("it says nothing".to_owned()))??;
        match answer.get("protocolVersion").and_then(Value::as_u64) {
            Some(PROTOCOL_VERSION) => Ok(answer),
            other => Err(AcpError::Version(other.map_or("none".to_owned(), |other| other.to_string()))),
        }
    }

    /// Sends a request, and waits for its answer. Dropping the future tells the agent that it is not wanted any more.
    ///
    /// # Errors
    /// [`AcpError`] when the agent refuses it or is gone.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, AcpError> {
        Ok(self.peer.request(method, params).await?)
    }

    /// Cancels the prompt of a session; the prompt's request then gets its answer.
    pub fn cancel(&self, session: &str) {
        self.peer.notify("session/cancel", &json!({ "sessionId": session }));
    }

    /// Closes the agent's input, which ends the agent.
    pub async fn close(self) {
        self.peer.close();
        self.writer.close().await;
    }
}

impl Drop for AcpConnection {
    fn drop(&mut self) {
        self.peer.close();
        self.reading.abort();
        let writer = self.writer.clone();
        // Outside of a runtime there is nobody left to write.
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            handle.spawn(async move { writer.close().await });
        }
    }
}

async fn read(from: impl AsyncRead + Unpin, peer: Arc<Peer>, host: Arc<dyn AcpHost>) {
    let mut lines = LineReader::new(from);
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) | Err(LineError::Failed(_)) => break,
            // A faulty line is skipped; later lines of the agent are still read.
            Err(LineError::TooLong { .. } | LineError::NotUtf8) => continue,
        };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let params = message.get("params").cloned().unwrap_or_default();
        match (message.get("method").and_then(Value::as_str), message.get("id").cloned()) {
            (Some("session/update"), None) => {
                if let (Some(session), Some(update)) =
                    (params.get("sessionId").and_then(Value::as_str), params.get("update"))
                {
                    host.update(session, update);
                }
            }
            (Some("session/request_permission"), Some(id)) => {
                let (peer, host) = (peer.clone(), host.clone());
                tokio::spawn(async move {
                    let outcome = match host.permission(&params).await.filter(|id| is_offered(&params, id)) {
                        Some(option) => json!({ "outcome": "selected", "optionId": option }),
                        None => json!({ "outcome": "cancelled" }),
                    };
                    peer.respond(&id, Ok(json!({ "outcome": outcome })));
                });
            }
            (Some(other), Some(id)) => peer.respond(&id, Err(RpcError::unknown_method(other))),
            (Some(_), None) => {}
            (None, _) => peer.accept_answer(&message),
        }
    }
    peer.close();
}

fn is_offered(request: &Value, id: &str) -> bool {
    let options = request.get("options").and_then(Value::as_array);
    options.is_some_and(|options| {
        options.iter().any(|option| option.get("optionId").and_then(Value::as_str) == Some(id))
    })
}
