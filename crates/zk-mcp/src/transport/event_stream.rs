//! Transport of revision 2024-11-05: a stream of events from the server, the first of which names the address
//! for messages.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use reqwest::Url;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpClient, StreamableHttpError};
use sse_stream::Sse;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::authorised_client::Authorised;
use super::post::RequestFailure;
use crate::transport::http_endpoint::HttpEndpoint;
use crate::transport::value_limits::{MAX_ANSWER_BYTES, bound_text};

/// Time limit for the first event.
const FIRST_EVENT_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of messages that wait for their reader; further ones wait at the server.
const MAX_WAITING_MESSAGES: usize = 32;

type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Connection over a stream of events. Dropping it ends the stream.
pub(crate) struct EventStreamTransport {
    client: Authorised,
    headers: HashMap<HeaderName, HeaderValue>,
    endpoint: Arc<str>,
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    reader: JoinHandle<()>,
}

impl EventStreamTransport {
    /// Opens the stream and waits for the address for messages.
    pub(crate) async fn open(server: &HttpEndpoint) -> Result<Self, RequestFailure> {
        let uri: Arc<str> = server.url.as_str().into();
        let headers = server.headers.clone();
        let opened = server
            .client
            .get_stream_with_max_sse_event_size(uri, None, None, None, headers, MAX_ANSWER_BYTES)
            .await;
        let mut events = opened?;
        let first = tokio::time::timeout(FIRST_EVENT_LIMIT, message_address(&mut events, &server.url)).await;
        let late =
            || unexpected_answer(format!("no address for messages within {} s", FIRST_EVENT_LIMIT.as_secs()));
        let endpoint = first.map_err(|_| late())??;
        let (sender, messages) = mpsc::channel(MAX_WAITING_MESSAGES);
        let reader = tokio::spawn(read(events, sender));
        let (client, headers) = (server.client.clone(), server.headers.clone());
        Ok(Self { client, headers, endpoint, messages, reader })
    }
}

fn unexpected_answer(what: String) -> RequestFailure {
    StreamableHttpError::UnexpectedServerResponse(what.into())
}

/// Reads the address for messages. It has to be on the server's origin, since it gets the token.
async fn message_address(events: &mut Events, url: &Url) -> Result<Arc<str>, RequestFailure> {
    while let Some(event) = events.next().await {
        let event = event?;
        if event.event.as_deref() != Some("endpoint") {
            continue;
        }
        let named = event.data.unwrap_or_default();
        let joined =
            url.join(named.trim()).map_err(|error| unexpected_answer(format!("`{named}`: {error}")))?;
        if joined.origin() != url.origin() {
            return Err(unexpected_answer(format!("it wants messages sent elsewhere: `{joined}`")));
        }
        return Ok(joined.as_str().into());
    }
    Err(StreamableHttpError::UnexpectedEndOfStream)
}

/// Passes messages on until the stream ends or the receiver is dropped.
async fn read(mut events: Events, sender: mpsc::Sender<RxJsonRpcMessage<RoleClient>>) {
    while let Some(Ok(event)) = events.next().await {
        if event.event.as_deref().is_some_and(|name| name != "message") {
            continue;
        }
        // Invalid messages are skipped, as on the other transports.
        let Some(data) = bound_text(event.data.unwrap_or_default()) else { continue };
        let Ok(message) = serde_json::from_str(&data) else { continue };
        if sender.send(message).await.is_err() {
            return;
        }
    }
}

impl Transport<RoleClient> for EventStreamTransport {
    type Error = RequestFailure;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (client, endpoint, headers) = (self.client.clone(), self.endpoint.clone(), self.headers.clone());
        async move {
            match client.post_message(endpoint, item, None, None, headers).await {
                // The answer arrives on the stream, regardless of this response.
                Ok(_) | Err(StreamableHttpError::UnexpectedContentType(_)) => Ok(()),
                Err(error) => Err(error),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.reader.abort();
        Ok(())
    }
}

impl Drop for EventStreamTransport {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
