use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Version of the engine's HTTP interface: Docker 20.10, which Podman supports too.
const VERSION: &str = "/v1.41";
/// Largest accepted response, in bytes; no endpoint used here sends more.
const MAX_ANSWER_BYTES: usize = 8 << 20;
/// Time limit of one response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Client of a container engine at a Unix socket. Each call opens its own connection.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    socket: Arc<Path>,
}

/// Failure of a call to the container engine.
#[derive(Debug, thiserror::Error)]
pub(super) enum EngineError {
    #[error("cannot reach the container engine at {socket}: {why}; is it running, and may you use it?")]
    Unreachable { socket: String, why: String },
    #[error("the container engine refused to {doing}: {message}")]
    Refused { doing: &'static str, status: StatusCode, message: String },
    #[error("the container engine was asked to {doing} and gave an answer that is none: {answer}")]
    Garbage { doing: &'static str, answer: String },
    /// The image has no such program; the text says how to fix it.
    #[error("{0}")]
    Lacks(String),
}

impl From<EngineError> for io::Error {
    fn from(error: EngineError) -> Self {
        let kind = match &error {
            EngineError::Refused { status: StatusCode::NOT_FOUND, .. } => io::ErrorKind::NotFound,
            EngineError::Lacks(_) => io::ErrorKind::NotFound,
            EngineError::Unreachable { .. } | EngineError::Refused { .. } | EngineError::Garbage { .. } => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, error)
    }
}

/// Connection that the engine upgraded to a raw byte stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) io: UnixStream,
    /// Bytes that arrived right behind the response's head.
    pub(super) first: Vec<u8>,
}

impl Stream {
    fn of(upgraded: Upgraded) -> Option<Self> {
        let parts = upgraded.downcast::<TokioIo<UnixStream>>().ok()?;
        Some(Self { io: parts.io.into_inner(), first: parts.read_buf.to_vec() })
    }
}

impl Engine {
    pub(super) fn new(socket: &Path) -> Self {
        Self { socket: socket.into() }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends a request to `path`; `doing` names the purpose in error messages.
    pub(super) async fn call(
        &self,
        doing: &'static str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, EngineError> {
        let answer = self.send_request(method, path, body, false).await?;
        let status = answer.status();
        let bytes = self.read_body(answer).await?;
        if !status.is_success() {
            return Err(EngineError::Refused { doing, status, message: error_message(&bytes) });
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes)
            .map_err(|_| EngineError::Garbage { doing, answer: error_message(&bytes) })
    }

    /// Sends a request to `path` and takes over the connection, which then carries a container's or a
    /// command's streams.
    pub(super) async fn hijack(
        &self,
        doing: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Stream, EngineError> {
        let answer = self.send_request(Method::POST, path, body, true).await?;
        let status = answer.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            let stream = timeout(RESPONSE_TIMEOUT, hyper::upgrade::on(answer))
                .await
                .map_err(|_| self.timeout_error())?;
            let stream = stream.map_err(|error| self.connection_error(&error))?;
            let lost = || EngineError::Garbage { doing, answer: "a connection of another kind".into() };
            return Stream::of(stream).ok_or_else(lost);
        }
        let bytes = self.read_body(answer).await?;
        let message = error_message(&bytes);
        if status.is_success() {
            let answer = format!("{status}, where the connection was to be handed over: {message}");
            return Err(EngineError::Garbage { doing, answer });
        }
        Err(EngineError::Refused { doing, status, message })
    }

    async fn send_request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        upgrade: bool,
    ) -> Result<Response<Incoming>, EngineError> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| self.connection_error(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.connection_error(&error))?;
        // Ends with the response, or with the upgraded connection.
        tokio::spawn(connection.with_upgrades());
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{VERSION}{path}"))
            .header(HOST, "docker")
            .header(CONTENT_TYPE, "application/json");
        if upgrade {
            request = request.header(CONNECTION, "Upgrade").header(UPGRADE, "tcp");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request =
            request.body(Full::new(Bytes::from(body))).map_err(|error| self.connection_error(&error))?;
        let answer = timeout(RESPONSE_TIMEOUT, sender.send_request(request))
            .await
            .map_err(|_| self.timeout_error())?;
        answer.map_err(|error| self.connection_error(&error))
    }

    async fn read_body(&self, answer: Response<Incoming>) -> Result<Bytes, EngineError> {
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect();
        let body = timeout(RESPONSE_TIMEOUT, body).await.map_err(|_| self.timeout_error())?;
        body.map(|body| body.to_bytes())
            .map_err(|why| EngineError::Unreachable { socket: self.socket_name(), why: why.to_string() })
    }

    fn connection_error(&self, why: &dyn std::error::Error) -> EngineError {
        EngineError::Unreachable { socket: self.socket_name(), why: why.to_string() }
    }

    fn timeout_error(&self) -> EngineError {
        EngineError::Unreachable { socket: self.socket_name(), why: "it does not answer".into() }
    }

    fn socket_name(&self) -> String {
        self.socket.display().to_string()
    }
}

/// Error text in a response of the engine.
fn error_message(bytes: &[u8]) -> String {
    let told = serde_json::from_slice::<Value>(bytes).ok();
    let told = told.as_ref().and_then(|answer| answer.get("message")?.as_str());
    let text = told.map_or_else(|| String::from_utf8_lossy(bytes).trim().to_owned(), str::to_owned);
    text.chars().take(500).collect()
}
