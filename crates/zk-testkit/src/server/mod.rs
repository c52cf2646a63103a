//! Fake LLM server on a real socket.

mod fault;
mod formats;
mod lists;
mod next_reply;
mod raw;
mod refusal;
mod reply;
mod requests;
mod serve;
mod shared;
mod socket;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::Script;
use crate::rules::{Strictness, Violation};
use crate::script::Playback;
pub use fault::{Fault, RetryAfter};
use formats::bulk::Bulk;
pub use raw::RawReply;
pub use requests::received::Received;
use shared::{Options, Shared};
use socket::Socket;

/// Server on 127.0.0.1 that plays a [`Script`] in the wire formats of real providers, rejects invalid
/// requests as they do, records all requests, and produces faults on demand.
///
/// | dialect | requests, streamed or not |
/// |---|---|
/// | Anthropic Messages | `POST /v1/messages`, `/v1/messages/count_tokens` |
/// | Chat Completions | `POST /v1/chat/completions` |
/// | OpenAI Responses | `POST /v1/responses`, `/v1/responses/input_tokens` |
/// | Gemini | `POST /v1beta/models/{model}:streamGenerateContent?alt=sse`, `:generateContent`, `:countTokens` |
/// | Ollama | `POST /api/chat`, `/api/show`, `GET /api/tags` |
/// | the Codex back end | `POST /backend-api/codex/responses` |
///
/// `GET /v1/models` and `/v1beta/models` list the models. A request that breaks the provider's rules gets
/// status 400 and does not use up a turn of the script.
///
/// The server has its own thread and runtime: it works in tests without a runtime, and its delays are real
/// even if the test's time is paused. Dropping it closes all connections.
///
/// ```
/// use zk_testkit::{FakeServer, Fault, Script};
///
/// let server = FakeServer::builder(Script::new().turn(|t| t.text("hello")))
///     .require_key("secret")
///     .models(["model-1"])
///     .start()
///     .unwrap();
/// server.fault_on(1, Fault::CutAfterEvents(3));
/// assert!(server.url().starts_with("http://127.0.0.1:"));
/// assert!(server.requests().is_empty());
/// ```
pub struct FakeServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// Builder of a [`FakeServer`].
pub struct FakeServerBuilder {
    script: Script,
    options: Options,
}

/// Reason why a [`FakeServer`] did not start.
#[derive(Debug, thiserror::Error)]
#[error("the fake server could not {what} on 127.0.0.1: {source}; check the limits on sockets and threads")]
pub struct StartError {
    what: &'static str,
    source: io::Error,
}

impl FakeServerBuilder {
    /// Requires this key; requests without it get status 401.
    #[must_use]
    pub fn require_key(mut self, key: impl Into<String>) -> Self {
        self.options.key = Some(key.into());
        self
    }

    /// Sets the known models; requests for others get status 404. By default every model is known.
    #[must_use]
    pub fn models<M: Into<String>>(mut self, models: impl IntoIterator<Item = M>) -> Self {
        self.options.models = models.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the rules of one dialect, in place of those of its first-party API.
    #[must_use]
    pub fn strictness(mut self, strictness: Strictness) -> Self {
        self.options.strict.push(strictness);
        self
    }

    /// Accepts all requests, as some local servers do.
    #[must_use]
    pub fn lenient(mut self) -> Self {
        self.options.checked = false;
        self
    }

    /// Answers every request with `deltas` pieces of text, all equal to `text`, rendered once and sent as
    /// fast as possible; the script is not played.
    #[must_use]
    pub fn bulk(mut self, deltas: usize, text: impl Into<String>) -> Self {
        self.options.bulk = Some(Bulk::new(deltas, text.into()));
        self
    }

    /// Starts the server on a free port.
    ///
    /// # Errors
    /// [`StartError`] when no socket or thread is available.
    pub fn start(self) -> Result<FakeServer, StartError> {
        let failed = |what| move |source| StartError { what, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed("listen"))?;
        listener.set_nonblocking(true).map_err(failed("listen"))?;
        let address = listener.local_addr().map_err(failed("listen"))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed("start a runtime"))?;
        let shared = Arc::new(Shared::new(self.options, Playback::new(self.script)));
        let stop = CancellationToken::new();
        let thread = std::thread::Builder::new()
            .name("fake-llm-server".to_owned())
            .spawn({
                let (shared, stop) = (shared.clone(), stop.clone());
                move || {
                    runtime.block_on(async {
                        tokio::select! {
                            () = stop.cancelled() => {}
                            () = accept(listener, shared) => {}
                        }
                    });
                }
            })
            .map_err(failed("start a thread"))?;
        Ok(FakeServer { shared, address, stop, thread: Some(thread) })
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        // A failed connection is noticed by its client.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let socket = Socket::new(stream);
        let shared = shared.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| serve::serve(shared.clone(), socket.clone(), request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(socket.clone()), service);
            // Broken connections are expected here.
            let _ = connection.await;
        });
    }
}

impl FakeServer {
    /// Builder of a server that plays `script`.
    #[must_use]
    pub fn builder(script: Script) -> FakeServerBuilder {
        let options = Options {
            key: None,
            models: Vec::new(),
            checked: true,
            strict: Vec::new(),
            bulk: None,
            raw: Vec::new(),
        };
        FakeServerBuilder { script, options }
    }

    /// Server that answers every request with the raw bytes `body`, sent in pieces that end at the offsets
    /// `cuts`.
    ///
    /// # Errors
    /// [`StartError`] when no socket or thread is available.
    pub fn raw(body: impl Into<Vec<u8>>, cuts: &[usize]) -> Result<Self, StartError> {
        Self::raw_replies([RawReply::new(body).cut_at(cuts.iter().copied())])
    }

    /// Server that answers requests with `replies` in turn, whatever their path; the last one repeats.
    ///
    /// # Errors
    /// [`StartError`] when no socket or thread is available.
    pub fn raw_replies(replies: impl IntoIterator<Item = RawReply>) -> Result<Self, StartError> {
        let mut builder = Self::builder(Script::new());
        builder.options.raw = replies.into_iter().collect();
        builder.start()
    }

    /// Server that plays `script` and is as strict as the first-party APIs.
    ///
    /// # Errors
    /// [`StartError`] when no socket or thread is available.
    pub fn start(script: Script) -> Result<Self, StartError> {
        Self::builder(script).start()
    }

    /// Base URL of the dialects of Anthropic and Ollama: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Base URL of the OpenAI dialects: `http://127.0.0.1:PORT/v1`.
    #[must_use]
    pub fn openai_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Base URL of the Codex back end: `http://127.0.0.1:PORT/backend-api/codex`.
    #[must_use]
    pub fn codex_url(&self) -> String {
        format!("http://{}/backend-api/codex", self.address)
    }

    /// Base URL of the Gemini dialect: `http://127.0.0.1:PORT/v1beta`.
    #[must_use]
    pub fn gemini_url(&self) -> String {
        format!("http://{}/v1beta", self.address)
    }

    /// Address of the listening socket.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets a fault for the response to the `number`th model request, from 1.
    pub fn fault_on(&self, number: usize, fault: Fault) -> &Self {
        self.shared.log().faults.insert(number, fault);
        self
    }

    /// Sets a fault for all responses without a fault of their own.
    pub fn fault_always(&self, fault: Fault) -> &Self {
        self.shared.log().always = Some(fault);
        self
    }

    /// Requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        self.shared.log().requests.clone()
    }

    /// Bodies of the model requests so far.
    #[must_use]
    pub fn bodies(&self) -> Vec<Value> {
        let log = self.shared.log();
        log.requests.iter().filter(|request| request.number.is_some()).map(Received::json).collect()
    }

    /// Rules that requests have broken so far; empty for a correct client.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.shared.log().requests.iter().filter_map(|request| request.violation.clone()).collect()
    }

    /// Number of responses that the client abandoned before their end.
    #[must_use]
    pub fn abandoned(&self) -> usize {
        self.shared.left.load(Ordering::Relaxed)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panicked thread has closed its connections.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for FakeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl fmt::Debug for FakeServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeServerBuilder").field("script", &self.script).finish_non_exhaustive()
    }
}
