use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures_util::StreamExt;
use reqwest::header::AUTHORIZATION;
use reqwest::{Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zk_auth::Http;
use zk_auth::http::{is_loopback, root_cause};
use zk_core::service::{Entry, StoreError};

use crate::wire::{MAX_MESSAGE_BYTES, PROTOCOL_VERSION, StreamEnd, StreamLine, VERSION_HEADER, WireError};

/// Longest time until the answer to a request begins, and between two parts of it.
const LIMIT: Duration = Duration::from_secs(30);

/// Client of one session server.
pub(super) struct Api {
    base: Url,
    token: Option<String>,
    http: Http,
}

/// Failure of a request.
pub(super) enum CallError {
    /// No connection was made, so nothing was sent.
    NotSent(String),
    /// The connection broke off; the request may have arrived.
    Lost(String),
    /// The server refused the request.
    Refused(WireError),
    /// The response does not follow the protocol of session servers.
    Foreign(String),
}

impl Api {
    pub(super) fn new(address: &str, token: Option<String>, http: Http) -> Result<Self, StoreError> {
        let failed = |why: &str| StoreError::Failed(format!("the address of the session server {why}"));
        let mut base = Url::parse(address).map_err(|error| failed(&format!("is not valid: {error}")))?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err(failed("contains a password; give the token in its own place"));
        }
        match base.scheme() {
            "https" => {}
            "http" if is_loopback(&base) => {}
            "http" => {
                return Err(failed("is of another machine, which needs https:// in front of the server"));
            }
            _ => return Err(failed("begins with neither http:// nor https://")),
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        Ok(Self { base, token, http })
    }

    pub(super) fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Sends a request and reads an answer that is no stream. Failures are explained for a person.
    pub(super) async fn call_explained<T: DeserializeOwned>(
        &self,
        operation: &str,
        request: &impl Serialize,
    ) -> Result<T, StoreError> {
        self.call(operation, request).await.map_err(|error| self.explain(error))
    }

    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        operation: &str,
        request: &impl Serialize,
    ) -> Result<T, CallError> {
        let body = read_body(self.send(operation, request).await?).await?;
        serde_json::from_slice(&body).map_err(|error| CallError::Foreign(error.to_string()))
    }

    /// Sends a request and reads the entries of its answer.
    pub(super) async fn collect_entries(
        &self,
        operation: &str,
        request: &impl Serialize,
    ) -> Result<(Vec<Entry>, StreamEnd), StoreError> {
        let mut entries = Vec::new();
        let end = self.visit_explained(operation, request, |entry| entries.push(entry)).await?;
        Ok((entries, end))
    }

    /// Sends a request and calls `visit` for each entry of its answer. Failures are explained for a person.
    pub(super) async fn visit_explained(
        &self,
        operation: &str,
        request: &impl Serialize,
        visit: impl FnMut(Entry) + Send,
    ) -> Result<StreamEnd, StoreError> {
        self.visit(operation, request, visit).await.map_err(|error| self.explain(error))
    }

    pub(super) async fn visit(
        &self,
        operation: &str,
        request: &impl Serialize,
        mut visit: impl FnMut(Entry) + Send,
    ) -> Result<StreamEnd, CallError> {
        let response = self.send(operation, request).await?;
        let mut parts = response.bytes_stream();
        let mut rest = BytesMut::new();
        // Number of bytes of `rest` that have no end of a line.
        let mut searched = 0;
        loop {
            while let Some(end) =
                rest.get(searched..).and_then(|new| new.iter().position(|byte| *byte == b'\n'))
            {
                let mut line = rest.split_to(searched + end + 1);
                line.truncate(line.len().saturating_sub(1));
                searched = 0;
                let line: StreamLine =
                    serde_json::from_slice(&line).map_err(|error| CallError::Foreign(error.to_string()))?;
                match line {
                    StreamLine::Entry(entry) => visit(*entry),
                    StreamLine::End(end) => return Ok(*end),
                    StreamLine::Error(error) => return Err(CallError::Refused(error)),
                }
            }
            searched = rest.remaining();
            if searched > MAX_MESSAGE_BYTES {
                return Err(CallError::Foreign("an entry is too large".to_owned()));
            }
            match tokio::time::timeout(LIMIT, parts.next()).await {
                Ok(Some(Ok(part))) => rest.extend_from_slice(&part),
                Ok(Some(Err(error))) => return Err(CallError::Lost(root_cause(&error))),
                Ok(None) => return Err(CallError::Lost("the answer ends early".to_owned())),
                Err(_) => return Err(no_answer_error()),
            }
        }
    }

    async fn send(&self, operation: &str, request: &impl Serialize) -> Result<Response, CallError> {
        let foreign = |why: String| CallError::Foreign(why);
        let url = self.base.join(&format!("v1/{operation}")).map_err(|error| foreign(error.to_string()))?;
        let client = self.http.client(&url).map_err(|error| CallError::NotSent(error.to_string()))?;
        let body = serde_json::to_vec(request).map_err(|error| foreign(error.to_string()))?;
        if body.len() > MAX_MESSAGE_BYTES {
            let why = format!("{} bytes are too many at once, {MAX_MESSAGE_BYTES} at most", body.len());
            return Err(CallError::Refused(WireError::Failed { why }));
        }
        let mut request = client.post(url).header(VERSION_HEADER, PROTOCOL_VERSION).body(body);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = match tokio::time::timeout(LIMIT, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => return Err(CallError::NotSent(root_cause(&error))),
            Ok(Err(error)) if error.is_builder() => {
                return Err(CallError::NotSent("the token is no text of a header".to_owned()));
            }
            Ok(Err(error)) => return Err(CallError::Lost(root_cause(&error))),
            Err(_) => return Err(no_answer_error()),
        };
        let version =
            response.headers().get(VERSION_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
        let status = response.status();
        match version {
            Some(PROTOCOL_VERSION) if status == StatusCode::OK => Ok(response),
            Some(PROTOCOL_VERSION) => {
                let body = read_body(response).await?;
                let error = serde_json::from_slice(&body).map_err(|error| foreign(error.to_string()))?;
                Err(CallError::Refused(error))
            }
            Some(server) => Err(CallError::Refused(WireError::Version { server })),
            // The answer of a proxy that cannot reach its server.
            None if status.is_server_error() => Err(CallError::Lost(format!("it answers {status}"))),
            None => Err(foreign(format!("it answers {status}"))),
        }
    }

    /// Error of the store for a failed request, with a message for a person.
    pub(super) fn explain(&self, error: CallError) -> StoreError {
        let address = self.address();
        StoreError::Failed(match error {
            CallError::Refused(WireError::Unauthorised) => {
                format!("the server at {address} refuses the token; take the one that it was started with")
            }
            CallError::Refused(WireError::Version { server }) => format!(
                "the server at {address} speaks version {server} of the protocol, and this zk version {PROTOCOL_VERSION}; update the older one"
            ),
            CallError::Refused(error) => return error.into(),
            CallError::NotSent(why) => {
                format!(
                    "cannot reach the session server at {address} ({why}); is `zk serve-sessions` running?"
                )
            }
            CallError::Lost(why) => {
                format!("the connection to the session server at {address} broke off ({why})")
            }
            CallError::Foreign(why) => format!("at {address} is no server of sessions ({why})"),
        })
    }
}

fn no_answer_error() -> CallError {
    CallError::Lost(format!("no answer within {} s", LIMIT.as_secs()))
}

/// Reads the body of an answer, up to [`MAX_MESSAGE_BYTES`].
async fn read_body(response: Response) -> Result<BytesMut, CallError> {
    let mut parts = response.bytes_stream();
    let mut body = BytesMut::new();
    loop {
        match tokio::time::timeout(LIMIT, parts.next()).await {
            Ok(None) => return Ok(body),
            Ok(Some(Ok(part))) if body.len() + part.len() <= MAX_MESSAGE_BYTES => {
                body.extend_from_slice(&part)
            }
            Ok(Some(Ok(_))) => return Err(CallError::Foreign("its answer is too long".to_owned())),
            Ok(Some(Err(error))) => return Err(CallError::Lost(root_cause(&error))),
            Err(_) => return Err(no_answer_error()),
        }
    }
}
