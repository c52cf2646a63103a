//! Sends a message over HTTP. The version in `rmcp` does not limit the number of values that it parses.

use std::collections::HashMap;

use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::{Client, Response};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};

use super::event_bytes::bounded_events;
use crate::transport::value_limits::bound;

/// Failure of a request to a server.
pub(crate) type RequestFailure = StreamableHttpError<reqwest::Error>;

/// Maximum size of a quoted invalid answer, in bytes.
const MAX_SHOWN_BYTES: usize = 256;

/// Parts of the HTTP request for a message, without the address.
pub(super) struct Post<'a> {
    pub(super) message: &'a ClientJsonRpcMessage,
    pub(super) session: Option<&'a str>,
    pub(super) token: Option<String>,
    pub(super) headers: HashMap<HeaderName, HeaderValue>,
    pub(super) limits: StreamableHttpResponseLimits,
}

impl Post<'_> {
    /// Sends the message to `uri`, and reads the answer within the limits. Its values are counted before it
    /// is parsed.
    pub(super) async fn send(
        self,
        client: &Client,
        uri: &str,
    ) -> Result<StreamableHttpPostResponse, RequestFailure> {
        let accepted = format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}");
        let mut request = client.post(uri).header(ACCEPT, accepted);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        for (name, value) in &self.headers {
            let reserved = [ACCEPT.as_str(), HEADER_SESSION_ID, HEADER_LAST_EVENT_ID];
            if reserved.iter().any(|reserved| name.as_str().eq_ignore_ascii_case(reserved)) {
                return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
            }
            request = request.header(name, value);
        }
        if let Some(session) = self.session {
            request = request.header(HEADER_SESSION_ID, session);
        }
        let response = request.json(self.message).send().await.map_err(StreamableHttpError::Client)?;
        self.read(response).await
    }

    async fn read(&self, response: Response) -> Result<StreamableHttpPostResponse, RequestFailure> {
        let (status, headers) = (response.status(), response.headers());
        if let Some(error) = challenge(status, headers) {
            return Err(error);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && self.session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = headers.get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if !status.is_success() {
            return self.read_error(response, session).await;
        }
        // Only requests have an answer.
        let is_awaited = matches!(self.message, JsonRpcMessage::Request(_));
        if is_media(headers, EVENT_STREAM_MIME_TYPE) {
            let events = bounded_events(response, self.limits.max_sse_event_size);
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        if is_media(headers, JSON_MIME_TYPE) {
            let body = read_body(response, self.limits.max_json_response_size).await?;
            return match parse(&body) {
                Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
                Err(_) if !is_awaited => Ok(StreamableHttpPostResponse::Accepted),
                Err(error) => Err(unexpected_answer(format!(
                    "its answer is no message: {error}: {}",
                    quote_body(&body)
                ))),
            };
        }
        if !is_awaited {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let media = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let media = media.map(|media| String::from_utf8_lossy(media).into_owned());
        Err(StreamableHttpError::UnexpectedContentType(media))
    }

    /// Reads an answer with an error status, which may contain a message with the reason.
    async fn read_error(
        &self,
        response: Response,
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, RequestFailure> {
        let status = response.status();
        let is_json = is_media(response.headers(), JSON_MIME_TYPE);
        let failure = failure(status, response.headers());
        let failure = match failure {
            Some(error) if !is_json || status == StatusCode::TOO_MANY_REQUESTS => return Err(error.into()),
            other => other,
        };
        let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let body = if is_json && !is_refused {
            match read_body(response, self.limits.max_json_response_size).await {
                Ok(body) => body,
                Err(error) => return Err(failure.map_or(error, StreamableHttpError::from)),
            }
        } else {
            read_prefix(response, self.limits.max_error_response_size).await
        };
        let error = match parse(&body) {
            Ok(JsonRpcMessage::Error(error)) if is_json && !is_refused => Some(error),
            Ok(_) | Err(_) => None,
        };
        let mut text = String::from_utf8_lossy(&body).into_owned();
        text.truncate(text.floor_char_boundary(self.limits.max_error_response_size));
        if let Some(answer) = self.without_discovery(status, error.as_ref().map(|error| &error.error), &text)
        {
            return Ok(answer);
        }
        match (error, failure) {
            (Some(error), _) => Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session)),
            (None, Some(failure)) => Err(failure.into()),
            (None, None) => Err(unexpected_answer(format!("HTTP {status}: {text}"))),
        }
    }

    /// Creates the answer of an old server to a discovery request of the newest revision: an error with the
    /// request's id, which such a server does not send.
    fn without_discovery(
        &self,
        status: StatusCode,
        error: Option<&ErrorData>,
        body: &str,
    ) -> Option<StreamableHttpPostResponse> {
        let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let JsonRpcMessage::Request(request) = self.message else { return None };
        let is_question = matches!(request.request, ClientRequest::DiscoverRequest(_));
        if self.session.is_some() || !status.is_client_error() || is_refused || !is_question {
            return None;
        }
        let why = || ErrorData::invalid_request(format!("server/discover: HTTP {status}: {body}"), None);
        let error = error.cloned().unwrap_or_else(why);
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        Some(StreamableHttpPostResponse::Json(answer, None))
    }
}

fn unexpected_answer(what: String) -> RequestFailure {
    StreamableHttpError::UnexpectedServerResponse(what.into())
}

/// Parses the message in `body`. A message with too many values becomes an error with the id of its request.
fn parse(body: &[u8]) -> Result<ServerJsonRpcMessage, String> {
    let body = bound(body).ok_or_else(|| "it has too many values".to_owned())?;
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

/// Returns the authentication challenge of an answer, if it has one.
fn challenge(status: StatusCode, headers: &HeaderMap) -> Option<RequestFailure> {
    let said = headers.get(WWW_AUTHENTICATE)?;
    let said = || match said.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(unexpected_answer("its header www-authenticate is no text".to_owned())),
    };
    match status {
        StatusCode::UNAUTHORIZED => Some(said().map_or_else(
            |error| error,
            |text| StreamableHttpError::AuthRequired(AuthRequiredError::new(text)),
        )),
        // The scope is read from the text later, if needed.
        StatusCode::FORBIDDEN => Some(said().map_or_else(
            |error| error,
            |text| StreamableHttpError::InsufficientScope(InsufficientScopeError::new(text, None)),
        )),
        _ => None,
    }
}

/// Returns a failure of the server itself, or a demand to wait.
fn failure(status: StatusCode, headers: &HeaderMap) -> Option<HttpStatusError> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let wait = headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()).map(str::to_owned);
    Some(HttpStatusError::new(status.as_u16(), wait))
}

/// Whether a body has this media type, with any parameters.
fn is_media(headers: &HeaderMap, expected: &str) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
    let essence = media.and_then(|media| media.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(expected)
}

/// Reads a whole body; fails if it exceeds `max_size` bytes.
async fn read_body(mut response: Response, max_size: usize) -> Result<Vec<u8>, RequestFailure> {
    let too_large = || StreamableHttpError::ResponseBodyTooLarge { max_size };
    if response.content_length().is_some_and(|length| length > max_size as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(StreamableHttpError::Client)? {
        if chunk.len() > max_size - body.len() {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads up to `max_size` bytes of a body; fewer after an error.
async fn read_prefix(mut response: Response, max_size: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < max_size
        && let Ok(Some(chunk)) = response.chunk().await
    {
        let room = chunk.len().min(max_size - body.len());
        body.extend_from_slice(chunk.get(..room).unwrap_or_default());
    }
    body
}

fn quote_body(body: &[u8]) -> String {
    String::from_utf8_lossy(body.get(..MAX_SHOWN_BYTES.min(body.len())).unwrap_or_default()).into_owned()
}
