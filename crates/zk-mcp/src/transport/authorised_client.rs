//! HTTP client that adds the token of a sign-in.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use reqwest::Client;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use secrecy::ExposeSecret;
use sse_stream::Sse;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::post::{Post, RequestFailure};
use super::sent_tools::SentTools;
use crate::auth::challenge::Challenge;
use crate::auth::credentials::ServerAuth;
use crate::transport::response_filter::{drop_foreign_messages, record_tools};
use crate::transport::value_limits::{MAX_ANSWER_BYTES, bound_text};

/// HTTP client that sends the token of a sign-in. A rejected token is refreshed once; no person is asked
/// here.
#[derive(Clone)]
pub(crate) struct Authorised {
    client: Client,
    /// Sign-in state; `None` if settings have a header `Authorization`, which excludes a sign-in.
    auth: Option<Arc<ServerAuth>>,
    refused: Refused,
    sent: SentTools,
    /// Cancels requests that have no receiver any more: a transport's task waits for its first requests even
    /// if its owner was dropped.
    cut: CancellationToken,
}

/// Flag that is set when a request was answered with a 4xx status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused(Arc<AtomicBool>);

impl Refused {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Authorised {
    pub(crate) fn new(client: Client, auth: Option<Arc<ServerAuth>>) -> Self {
        Self {
            client,
            auth,
            refused: Refused::default(),
            sent: SentTools::default(),
            cut: CancellationToken::new(),
        }
    }

    /// Returns the flag of refused requests, which is set from then on.
    pub(crate) fn refused(&self) -> Refused {
        self.refused.clone()
    }

    /// Returns the record of tool names in list responses, which is filled from then on.
    pub(crate) fn sent(&self) -> SentTools {
        self.sent.clone()
    }

    /// Returns a guard that cancels all requests when it is dropped.
    pub(crate) fn cut_on_drop(&self) -> DropGuard {
        self.cut.clone().drop_guard()
    }

    async fn send<T, F>(&self, send: impl Fn(Option<String>) -> F) -> Result<T, RequestFailure>
    where
        F: Future<Output = Result<T, RequestFailure>>,
    {
        let sent = tokio::select! {
            sent = self.send_with_token(send) => sent,
            () = self.cut.cancelled() => Err(StreamableHttpError::TransportChannelClosed),
        };
        if let Err(StreamableHttpError::UnexpectedServerResponse(text)) = &sent
            && text.starts_with("HTTP 4")
        {
            self.refused.0.store(true, Ordering::Release);
        }
        sent
    }

    async fn send_with_token<T, F>(&self, send: impl Fn(Option<String>) -> F) -> Result<T, RequestFailure>
    where
        F: Future<Output = Result<T, RequestFailure>>,
    {
        let Some(auth) = &self.auth else { return send(None).await };
        let token = auth.token().await;
        let shown = |token: &zk_auth::Secret| token.expose_secret().to_owned();
        let mut sent = send(token.as_ref().map(shown)).await.map_err(to_challenge);
        if let (Err(StreamableHttpError::AuthRequired(_)), Some(rejected)) = (&sent, &token)
            && let Some(fresh) = auth.replace(rejected).await
        {
            sent = send(Some(shown(&fresh))).await.map_err(to_challenge);
        }
        match &sent {
            Err(StreamableHttpError::AuthRequired(error)) => {
                auth.record_challenge(Challenge::parse(&error.www_authenticate_header));
            }
            Err(StreamableHttpError::InsufficientScope(error)) => {
                auth.note_wanted(Challenge::parse(&error.www_authenticate_header)).await;
            }
            Ok(_) | Err(_) => {}
        }
        sent
    }
}

impl Authorised {
    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, RequestFailure> {
        self.send(|token| {
            let (session, headers) = (session_id.as_deref(), headers.clone());
            let post = Post { message: &message, session, token, headers, limits };
            post.send(&self.client, &uri)
        })
        .await
    }
}

/// Converts a plain 401, which servers before 2025-06-18 send, to a challenge.
fn to_challenge(error: RequestFailure) -> RequestFailure {
    match error {
        StreamableHttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP 401") => {
            StreamableHttpError::AuthRequired(AuthRequiredError::new(String::new()))
        }
        other => other,
    }
}

impl StreamableHttpClient for Authorised {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, RequestFailure> {
        self.post(uri, message, session_id, headers, StreamableHttpResponseLimits::default()).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, RequestFailure> {
        let answer = self.post(uri, message.clone(), session_id, headers, limits).await?;
        Ok(record_tools(&message, drop_foreign_messages(&message, answer)?, &self.sent))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), RequestFailure> {
        self.send(|token| self.client.delete_session(uri.clone(), session_id.clone(), token, headers.clone()))
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, RequestFailure> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            token,
            headers,
            MAX_ANSWER_BYTES,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        largest: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, RequestFailure> {
        let events = self
            .send(|token| {
                let (uri, session, headers) = (uri.clone(), session_id.clone(), headers.clone());
                let last = last_event_id.clone();
                self.client.get_stream_with_max_sse_event_size(uri, session, last, token, headers, largest)
            })
            .await?;
        let bound = |event: Sse| Sse { data: event.data.and_then(bound_text), ..event };
        Ok(events.map(move |event| event.map(bound)).boxed())
    }
}
