//! Generic HTTP provider over a dialect.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde_json::Value;
use zk_core::events::ProviderRetry;
use zk_core::kernel::Cx;
use zk_core::model::{Model, ProviderError, WireRules};
use zk_core::service::{EventStream, Provider, Request, RetryNotice, StreamEvent};

use crate::wire::client::ApiClient;
use crate::wire::connection::Connection;
use crate::wire::dialect::{Attempt, Dialect};
use crate::wire::embeddings;
use crate::wire::endpoint::SetupError;

/// A provider that uses the dialect `D` over HTTP. Clones share its connections.
pub struct HttpProvider<D> {
    client: ApiClient,
    dialect: Arc<D>,
}

impl<D> Clone for HttpProvider<D> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), dialect: self.dialect.clone() }
    }
}

impl<D> fmt::Debug for HttpProvider<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider").field("client", &self.client).finish_non_exhaustive()
    }
}

impl<D: Dialect> HttpProvider<D> {
    /// Creates the provider at `connection` with this dialect.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn with_dialect(connection: Connection, dialect: D) -> Result<Self, SetupError> {
        let client = ApiClient::new(connection, D::BASE_URL, D::KEY_HEADER)?;
        Ok(Self { client, dialect: Arc::new(dialect) })
    }

    fn send(&self, request: &Request, attempt: Attempt, cx: &Cx) -> EventStream {
        let wire_request = self.dialect.request(&self.client, request);
        let decoder = self.dialect.decoder(&self.client, request, attempt);
        self.client.stream(&request.model.id, wire_request, decoder, cx)
    }
}

/// Stream of a response, which may be requested a second time if the dialect wants it.
struct Sending<D> {
    provider: HttpProvider<D>,
    request: Request,
    attempt: Attempt,
    events: EventStream,
    cx: Cx,
}

impl<D: Dialect> Sending<D> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        let error = match self.events.next().await? {
            Ok(event) => return Some(Ok(event)),
            Err(error) => error,
        };
        let dialect = &self.provider.dialect;
        let reason = match self.attempt {
            Attempt::First => dialect.resend_reason(&error, &self.request),
            Attempt::Second => None,
        };
        let Some(message) = reason else { return Some(Err(dialect.explain(error, &self.request))) };
        let delay = Duration::ZERO;
        let discards = false;
        let retry = RetryNotice { attempt: 1, max_attempts: 2, delay, kind: error.kind, message, discards };
        let announced = || ProviderRetry { model: self.request.model.reference(), retry: retry.clone() };
        // A failing observer does not prevent the next attempt.
        let _ = self.cx.emit_with(announced).await;
        self.attempt = Attempt::Second;
        self.request = dialect.prepare(self.request.clone());
        self.events = self.provider.send(&self.request, self.attempt, &self.cx);
        Some(Ok(StreamEvent::Retry(retry)))
    }
}

#[async_trait]
impl<D: Dialect> Provider for HttpProvider<D> {
    fn name(&self) -> &str {
        self.client.name()
    }

    fn model(&self, id: &str) -> Model {
        self.dialect.model(&self.client, id)
    }

    fn default_model(&self) -> Option<String> {
        self.client.default_model()
    }

    fn known_models(&self) -> Vec<Model> {
        self.client.known_ids().into_iter().map(|id| self.model(id)).collect()
    }

    fn quota_key(&self) -> Option<String> {
        Some(self.client.quota_key())
    }

    fn rules(&self, model: &Model) -> WireRules {
        self.dialect.rules(model)
    }

    fn native_output(&self, model: &Model, schema: &Value, with_tools: bool) -> bool {
        self.dialect.native_output(model, schema, with_tools)
    }

    fn thinking_breaks_prefix(&self, model: &Model) -> bool {
        self.dialect.thinking_breaks_prefix(model)
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let request = self.dialect.prepare(request);
        let events = self.send(&request, Attempt::First, cx);
        let sending =
            Sending { provider: self.clone(), request, attempt: Attempt::First, events, cx: cx.clone() };
        Box::pin(stream::unfold(Box::new(sending), |mut sending| async move {
            let event = sending.next().await?;
            Some((event, sending))
        }))
    }

    async fn count_tokens(&self, request: Request, cx: &Cx) -> Result<Option<u64>, ProviderError> {
        let request = self.dialect.prepare(request);
        let id = &request.model.id;
        let count = self.dialect.count_request(&self.client, &request);
        let Some(count) = count.map_err(|error| self.client.error(id, error))? else { return Ok(None) };
        let answer = self.client.fetch(id, count.request, cx).await?;
        Ok(answer.get(count.field).and_then(Value::as_u64))
    }

    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        self.dialect.list_models(&self.client, cx).await
    }

    async fn embed(
        &self,
        model: &str,
        texts: &[String],
        cx: &Cx,
    ) -> Result<Option<Vec<Vec<f32>>>, ProviderError> {
        let Some(path) = self.dialect.embeddings_path() else { return Ok(None) };
        embeddings::embed(&self.client, path, model, texts, cx).await.map(Some)
    }

    async fn describe_model(&self, id: &str, cx: &Cx) -> Model {
        self.dialect.describe_model(&self.client, id, cx).await
    }
}
