//! Sends a request and streams its response, for all dialects.

mod json;
mod waiting;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use tokio::time::timeout;
use zk_auth::http::{Received, read_up_to_limit};
use zk_core::events::{ProviderPayload, ProviderResponse};
use zk_core::kernel::{Cx, EmitError};
use zk_core::model::{ErrorKind, ModelRef, Phase, ProviderError};
use zk_core::service::{EventStream, StreamEvent, TraceContext, Ui};

use crate::wire::endpoint::Endpoint;
use crate::wire::error::{self, ErrorBody, RequestContext, WireError};
use crate::wire::request::{Beta, Headers, WireRequest};
use crate::wire::response::decode::{Decode, decode_event};
use crate::wire::response::frames::Frames;
use crate::wire::response::limits::{ERROR_BODY, Meter};
use crate::wire::response::timeouts::{Clock, Clocks, Watchdog};

pub(crate) use json::fetch;
use waiting::{WaitOutcome, wait_for};

/// Time limit for reading an error body, or the rest of a finished response.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a request and decodes the response with `decoder`.
pub(crate) fn exchange(
    endpoint: Arc<Endpoint>,
    context: RequestContext,
    request: Result<WireRequest, WireError>,
    clocks: Clocks,
    decoder: Box<dyn Decode>,
    cx: &Cx,
) -> EventStream {
    let state = Box::new(Exchange {
        endpoint,
        watch: Watchdog::new(clocks, context.started),
        context,
        cx: cx.clone(),
        step: Step::Send(request),
        ready: VecDeque::new(),
        frames: Frames::of(decoder.framing()),
        meter: Meter::default(),
        decoder,
    });
    Box::pin(stream::unfold(state, |mut state| async move {
        let item = state.next().await?;
        Some((item, state))
    }))
}

struct Exchange {
    endpoint: Arc<Endpoint>,
    context: RequestContext,
    watch: Watchdog,
    cx: Cx,
    step: Step,
    /// Decoded events that were not returned yet.
    ready: VecDeque<StreamEvent>,
    frames: Frames,
    meter: Meter,
    decoder: Box<dyn Decode>,
}

enum Step {
    Send(Result<WireRequest, WireError>),
    Read(Response),
    /// No more bytes will come; the decoder's last events are returned.
    Flush,
    /// The response failed; the events before are returned first.
    Fail(WireError),
    Over,
}

impl Exchange {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(mut event) = self.ready.pop_front() {
                self.endpoint.redact_event(&mut event);
                if let StreamEvent::Start { request_id, .. } = &mut event {
                    // The header's id is the one for the provider's support; the body's id is a fallback.
                    self.context.request_id = self.context.request_id.take().or(request_id.take());
                    request_id.clone_from(&self.context.request_id);
                }
                if matches!(event, StreamEvent::Done { .. }) {
                    self.finish();
                }
                return Some(Ok(event));
            }
            if matches!(self.step, Step::Fail(_))
                && let Step::Fail(error) = std::mem::replace(&mut self.step, Step::Over)
            {
                let error = self.endpoint.without_secrets(error);
                let is_own = self.endpoint.is_loopback();
                return Some(Err(self.context.error(if is_own { error.with_local_hint() } else { error })));
            }
            if let Err(error) = self.advance().await {
                self.step = Step::Fail(error);
                continue;
            }
            if matches!(self.step, Step::Over) && self.ready.is_empty() {
                return None;
            }
        }
    }

    /// Makes one step: decodes at most one event, or reads at most one chunk.
    async fn advance(&mut self) -> Result<(), WireError> {
        if let Step::Read(_) | Step::Flush = &self.step {
            match self.frames.next().map_err(|error| WireError::malformed(error.to_string()))? {
                Some(event) => {
                    let is_last = matches!(self.step, Step::Flush);
                    decode_event(&mut *self.decoder, event, is_last, &mut self.meter, &mut self.ready)?;
                    if self.ready.iter().any(has_content) {
                        self.watch.record_content();
                        // The next event may be in the same chunk, and fail.
                        self.context.phase = self.watch.phase();
                    }
                    return Ok(());
                }
                None if matches!(self.step, Step::Flush) => {
                    self.step = Step::Over;
                    return self.decoder.end(&mut self.ready);
                }
                None => {}
            }
        }
        match std::mem::replace(&mut self.step, Step::Over) {
            Step::Send(request) => self.step = Step::Read(self.send(request?).await?),
            Step::Read(response) => self.read(response).await?,
            step @ (Step::Flush | Step::Over | Step::Fail(_)) => self.step = step,
        }
        Ok(())
    }

    async fn send(&mut self, wire_request: WireRequest) -> Result<Response, WireError> {
        let WireRequest { path, headers, body } = wire_request;
        let mut headers = self.endpoint.without_refused(headers);
        let body = self.announce(body.unwrap_or_default()).await?;
        self.context.phase = Phase::Response;
        let mut refused: Vec<Beta> = Vec::new();
        let response = loop {
            let response = self.post(&path, headers.clone(), body.clone()).await?;
            let status = response.status();
            if status.is_success() {
                break response;
            }
            let received = response.headers().clone();
            let error = self.endpoint.response_error(status, &received, &self.read_leftover(response).await?);
            let named = headers.refused_betas(&error.message);
            // Beta features are removed only once; a second rejection is reported.
            if status != StatusCode::BAD_REQUEST || named.is_empty() || !refused.is_empty() {
                return Err(error);
            }
            headers = headers.without_betas(&named);
            refused = named;
        };
        // The request was accepted without them.
        for Beta { name, .. } in self.endpoint.leave_out(refused) {
            if let Some(ui) = self.cx.service::<dyn Ui>() {
                let provider = &self.context.provider;
                ui.notify(&format!(
                    "{provider} refused the beta feature `{name}`: it is left out from now on"
                ));
            }
        }
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if self.frames.rejects_content_type(kind) {
            return Err(self.not_a_stream(response).await?);
        }
        self.context.phase = Phase::FirstEvent;
        self.watch.record_data();
        Ok(response)
    }

    /// Sends the request once, and announces the response.
    async fn post(&mut self, path: &str, headers: Headers, body: Bytes) -> Result<Response, WireError> {
        let mut request = self
            .endpoint
            .request(Method::POST, path)?
            .header(CONTENT_TYPE, "application/json")
            .header("accept", self.frames.media_type());
        for (name, value) in headers.into_pairs() {
            request = request.header(name, value);
        }
        if let Some(trace) = self.cx.service::<dyn TraceContext>() {
            for (name, value) in trace.headers(&self.cx) {
                request = request.header(name, value);
            }
        }
        let sent = self.endpoint.send(request.body(body), &self.cx);
        let response = match wait_for(sent, &mut self.watch, &self.context, &self.cx, false).await? {
            WaitOutcome::Ready(sent) => sent?,
            WaitOutcome::TimedOut(clock) => return Err(self.watch.stalled(clock)),
        };
        self.context.request_id = self.endpoint.request_id(response.headers());
        let status = response.status();
        let (context, endpoint, headers) = (&self.context, &self.endpoint, response.headers());
        let announced = self.cx.emit_with(|| ProviderResponse {
            model: model_of(context),
            status: status.as_u16(),
            request_id: context.request_id.clone(),
            limits: endpoint.limits(headers),
            elapsed_ms: context.started.elapsed().as_millis() as u64,
        });
        announced.await.map_err(hook_error)?;
        Ok(response)
    }

    /// Announces the body to observers and handlers, and returns the handlers' version of it. With observers
    /// only, the original bytes are sent: parsing and serialising them again would change the order of
    /// fields, and break the provider's cache.
    async fn announce(&self, body: Bytes) -> Result<Bytes, WireError> {
        if !self.cx.bus().has_listeners::<ProviderPayload>() {
            return Ok(body);
        }
        let unusable = |error: serde_json::Error| WireError::new(ErrorKind::Rejected, error.to_string());
        let payload: Value = serde_json::from_slice(&body).map_err(unusable)?;
        let shown = self.cx.bus().has_handlers::<ProviderPayload>().then(|| payload.clone());
        let sent = self
            .cx
            .emit(ProviderPayload { model: model_of(&self.context), payload })
            .await
            .map_err(hook_error)?;
        match shown {
            Some(shown) if shown != sent.payload => {
                serde_json::to_vec(&sent.payload).map(Bytes::from).map_err(unusable)
            }
            Some(_) | None => Ok(body),
        }
    }

    async fn read(&mut self, mut response: Response) -> Result<(), WireError> {
        if self.cx.is_stopped() {
            return Err(WireError::aborted());
        }
        self.context.phase = self.watch.phase();
        self.watch.start_wait();
        let complete = self.decoder.is_complete();
        let chunk =
            match wait_for(response.chunk(), &mut self.watch, &self.context, &self.cx, complete).await? {
                WaitOutcome::Ready(chunk) => chunk,
                WaitOutcome::TimedOut(Clock::Ending) => {
                    self.flush();
                    return Ok(());
                }
                WaitOutcome::TimedOut(clock) => return Err(self.watch.stalled(clock)),
            };
        match chunk {
            Ok(Some(bytes)) => {
                self.watch.record_data();
                self.frames.feed(&bytes);
                self.step = Step::Read(response);
            }
            Ok(None) => self.flush(),
            Err(_) if complete => self.flush(),
            Err(error) => return Err(self.endpoint.interruption_error(&error)),
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.frames.finish();
        self.step = Step::Flush;
    }

    /// Handles the end of a complete response. The rest, normally only the end of the body, is read in the
    /// background so that the connection can be reused.
    fn finish(&mut self) {
        if let Step::Read(mut response) = std::mem::replace(&mut self.step, Step::Over) {
            let rest = async move { while let Ok(Some(_)) = response.chunk().await {} };
            let mut rest = Box::pin(timeout(LEFTOVER_TIMEOUT, rest));
            if rest.as_mut().now_or_never().is_none() {
                tokio::spawn(rest);
            }
        }
    }

    /// Reads a body for at most [`LEFTOVER_TIMEOUT`].
    async fn read_leftover(&self, response: Response) -> Result<Received, WireError> {
        let mut body = Received::default();
        tokio::select! {
            biased;
            _ = timeout(LEFTOVER_TIMEOUT, read_up_to_limit(response, ERROR_BODY, &mut body)) => {}
            () = self.cx.stop_token().cancelled() => return Err(WireError::aborted()),
        }
        Ok(body)
    }

    /// Returns the error for a response of status 200 that is no stream: an error object, or something else.
    async fn not_a_stream(&self, response: Response) -> Result<WireError, WireError> {
        let body = self.read_leftover(response).await?;
        // Redacted before any quotation, which could end in the middle of a key.
        let redacted = self.endpoint.redacted(&String::from_utf8_lossy(&body.bytes));
        let body = ErrorBody::parse(redacted.as_bytes());
        if body.is_html {
            let mut error = error::of_stream(body);
            error.message = format!("the answer is {}", error.message);
            return Ok(error.at(Phase::Response));
        }
        if body.is_error() {
            return Ok(error::of_stream(body).at(Phase::Response));
        }
        let message = format!("the answer is not a stream but JSON: {}", body.message);
        Ok(WireError::malformed(message)
            .at(Phase::Response)
            .hint("Is this the right base URL for this provider?"))
    }
}

fn model_of(context: &RequestContext) -> ModelRef {
    ModelRef::new(&*context.provider, &*context.model)
}

/// Whether an event has content. The start of a response and its usage so far do not count.
fn has_content(event: &StreamEvent) -> bool {
    match event {
        StreamEvent::Text { .. }
        | StreamEvent::Thinking { .. }
        | StreamEvent::ToolCall { .. }
        | StreamEvent::ToolArgs { .. }
        | StreamEvent::Block { .. }
        | StreamEvent::Done { .. } => true,
        StreamEvent::Start { .. }
        | StreamEvent::Usage(_)
        | StreamEvent::Report(_)
        | StreamEvent::Retry(_) => false,
    }
}

/// Converts a handler's fatal failure, or a stopped run, to an error that ends the request.
fn hook_error(error: EmitError) -> WireError {
    match error {
        EmitError::Cancelled { .. } => WireError::aborted(),
        EmitError::Hook(error) => WireError::new(ErrorKind::Rejected, error.to_string()).never_retry(),
    }
}
