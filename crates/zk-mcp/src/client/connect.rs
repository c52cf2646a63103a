//! Connects to a configured server and negotiates the protocol.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use rmcp::model::{JsonRpcMessage, Prompt, ProtocolVersion, RequestId, ServerPeerInfo};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient,
    RxJsonRpcMessage, TxJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use zk_core::service::Exec;

use super::handler::{Handler, ListChanged};
use super::library::{Library, LibraryState};
use crate::config::exposure::ServerTrust;
#[cfg(feature = "http")]
use crate::config::secret_values::SecretValues;
use crate::config::server_config::ServerConfig;
use crate::config::server_transport::ServerTransport;
use crate::server::status::FailureStage;
use crate::store::eras::ServerEra;
#[cfg(feature = "http")]
use crate::transport::event_stream::EventStreamTransport;
use crate::transport::sent_tools::SentTools;
use crate::transport::stdio::{LogSink, Said, StdioTransport};

/// Time limit for closing a connection; a program has less than that to end by itself.
const CLOSING_TIME_LIMIT: Duration = Duration::from_millis(1800);

/// Share of the start's time limit for probing revisions, as a divisor.
const PROBE_PART: u32 = 3;

/// Inputs for connecting to a server.
pub(crate) struct Connecting<'a> {
    /// Configuration of the server with variables expanded.
    pub(crate) server: &'a ServerConfig,
    pub(crate) project: &'a Path,
    pub(crate) exec: Option<Arc<dyn Exec>>,
    #[cfg(feature = "http")]
    pub(crate) http: &'a zk_auth::Http,
    /// Lock that serialises the creation of HTTP clients.
    #[cfg(feature = "http")]
    pub(crate) making: &'a tokio::sync::Mutex<()>,
    /// Sign-in state, for a server that may require a sign-in.
    #[cfg(feature = "http")]
    pub(crate) auth: Option<Arc<crate::auth::ServerAuth>>,
    pub(crate) handler: Handler,
    pub(crate) log: Option<LogSink>,
    pub(crate) said: Said,
    /// Limit of programs that are started concurrently, since too many would delay everything else.
    pub(crate) starts: &'a Semaphore,
    /// Tasks that own programs.
    pub(crate) pumps: &'a TaskTracker,
}

/// Failure to connect.
#[derive(Debug)]
pub(crate) struct ConnectError {
    pub(crate) stage: FailureStage,
    pub(crate) why: String,
    /// Whether the server answered with a 4xx status.
    is_refused: bool,
}

/// One way to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    As(ServerEra),
    /// Asks for the supported revisions, and falls back to a handshake.
    Probe,
}

impl ConnectError {
    fn start(why: impl Display) -> Self {
        Self { stage: FailureStage::Start, why: why.to_string(), is_refused: false }
    }
}

impl Connecting<'_> {
    /// Connects in the server's last known era. If that is unknown or wrong, tries the newest revision, then
    /// a handshake, then the transport of the first revision.
    pub(crate) async fn connect(&self, known: Option<ServerEra>) -> Result<Connection, ConnectError> {
        let known = known.or(self.server.is_event_stream.then_some(ServerEra::EventStream));
        let probes = [
            known.map(Attempt::As),
            Some(Attempt::Probe),
            // Some servers of earlier revisions fail on an unknown request.
            Some(Attempt::As(ServerEra::Handshake)),
            Some(Attempt::As(ServerEra::EventStream)),
        ];
        let mut failures: Vec<ConnectError> = Vec::new();
        for (at, attempt) in probes.into_iter().enumerate().filter_map(|(at, one)| Some((at, one?))) {
            let is_event_stream = matches!(attempt, Attempt::As(ServerEra::EventStream));
            let was_refused = failures.last().is_some_and(|failure| failure.is_refused);
            if at > 0 && (known.map(Attempt::As) == Some(attempt) || (is_event_stream && !was_refused)) {
                continue;
            }
            let attempted = match attempt {
                Attempt::Probe => Box::pin(self.probe()).await,
                Attempt::As(_) => self.attempt(attempt).await,
            };
            match attempted {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    let is_over = !matches!(error.stage, FailureStage::Handshake);
                    failures.push(error);
                    if is_over {
                        break;
                    }
                }
            }
        }
        let stage = failures.last().map_or(FailureStage::Handshake, |failure| failure.stage);
        let mut reasons: Vec<String> = failures.into_iter().map(|failure| failure.why).collect();
        reasons.dedup();
        Err(ConnectError { stage, why: reasons.join("; "), is_refused: false })
    }

    /// Asks for the supported revisions. Some servers of earlier revisions never answer an unknown request,
    /// so for HTTP a handshake is started in parallel after a part of the time limit.
    async fn probe(&self) -> Result<Connection, ConnectError> {
        let mut probe = pin!(self.attempt(Attempt::Probe));
        if matches!(self.server.transport, ServerTransport::Stdio { .. }) {
            // For a program, a parallel handshake would start another process.
            return probe.await;
        }
        // Reading the certificates for the program's first HTTP client does not count as the server's time.
        #[cfg(feature = "http")]
        if let ServerTransport::Http { url, headers } = &self.server.transport {
            self.http_endpoint(url, headers).await.map_err(ConnectError::start)?;
        }
        if let Ok(probed) = timeout(self.server.start_cap / PROBE_PART, &mut probe).await {
            return probed;
        }
        let handshake = pin!(self.attempt(Attempt::As(ServerEra::Handshake)));
        match select(probe, handshake).await {
            Either::Left((Err(_), other)) => other.await,
            Either::Right((Err(_), other)) => other.await,
            Either::Left((made, _)) | Either::Right((made, _)) => made,
        }
    }

    async fn attempt(&self, attempt: Attempt) -> Result<Connection, ConnectError> {
        let newest = vec![ProtocolVersion::V_2026_07_28];
        let lifecycle = match attempt {
            Attempt::Probe => ClientLifecycleMode::Auto {
                preferred_versions: newest,
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Attempt::As(ServerEra::Modern) => ClientLifecycleMode::Discover { preferred_versions: newest },
            Attempt::As(ServerEra::Handshake | ServerEra::EventStream) => ClientLifecycleMode::Initialize,
        };
        match &self.server.transport {
            transport @ ServerTransport::Stdio { .. } => {
                let Some(exec) = &self.exec else {
                    return Err(ConnectError::start(match self.server.trust {
                        ServerTrust::Sandboxed => "its `trust` is `sandboxed`, and there is no sandbox here",
                        ServerTrust::Trusted | ServerTrust::Untrusted => {
                            "there is no service that starts programs"
                        }
                    }));
                };
                // Only starts are limited; a running program does not hold the permit.
                let permit = self.starts.acquire().await.map_err(ConnectError::start)?;
                let started = StdioTransport::start(
                    &**exec,
                    transport,
                    self.project,
                    self.said.clone(),
                    self.log.clone(),
                    self.pumps,
                );
                let transport = started.await.map_err(ConnectError::start)?;
                drop(permit);
                let fault = Some(transport.fault());
                self.negotiate(transport, fault, None, lifecycle, ServerEra::Handshake).await
            }
            #[cfg(feature = "http")]
            ServerTransport::Http { url, headers } => {
                let http_endpoint = self.http_endpoint(url, headers).await.map_err(ConnectError::start)?;
                let (refused, cut) =
                    (http_endpoint.client.refused(), Some(http_endpoint.client.cut_on_drop()));
                let sent = http_endpoint.client.sent();
                let agreed = if attempt == Attempt::As(ServerEra::EventStream) {
                    let transport = EventStreamTransport::open(&http_endpoint).await;
                    let transport = transport.map_err(|error| self.stream_error(&error))?;
                    self.negotiate(transport, None, cut, lifecycle, ServerEra::EventStream).await
                } else {
                    self.negotiate(http_endpoint.transport(), None, cut, lifecycle, ServerEra::Handshake)
                        .await
                };
                let agreed = agreed.map(|connection| Connection { sent, ..connection });
                agreed.map_err(|error| ConnectError { is_refused: refused.get(), ..error })
            }
            #[cfg(not(feature = "http"))]
            ServerTransport::Http { .. } => Err(ConnectError::start(
                "this program was built without HTTP for MCP servers; build it with the feature `http`",
            )),
        }
    }

    /// Creates the HTTP client on another thread, since the first one of a program reads certificates.
    #[cfg(feature = "http")]
    async fn http_endpoint(
        &self,
        url: &str,
        headers: &SecretValues,
    ) -> Result<crate::transport::http_endpoint::HttpEndpoint, String> {
        let (http, auth) = (self.http.clone(), self.auth.clone());
        let (url, headers) = (url.to_owned(), headers.clone());
        // Serialised so that all share the first client's certificates.
        let _making = self.making.lock().await;
        let made = tokio::task::spawn_blocking(move || {
            crate::transport::http_endpoint::HttpEndpoint::new(&http, &url, &headers, auth)
        });
        made.await.map_err(|error| error.to_string())?
    }

    /// Creates the error for a stream of events that could not be opened.
    #[cfg(feature = "http")]
    fn stream_error(&self, error: &(dyn std::error::Error + 'static)) -> ConnectError {
        if super::call::wants_sign_in(error) {
            return unauthorised_error(self.server);
        }
        let why = format!("no stream of events either: {}", root_cause(error));
        ConnectError { stage: FailureStage::Handshake, why, is_refused: false }
    }

    async fn negotiate<T: Transport<RoleClient> + 'static>(
        &self,
        transport: T,
        fault: Option<Arc<Mutex<Option<String>>>>,
        cut: Option<DropGuard>,
        lifecycle: ClientLifecycleMode,
        with_handshake: ServerEra,
    ) -> Result<Connection, ConnectError> {
        let ended = CancellationToken::new();
        let transport = Guarded { inner: transport, ended: ended.clone(), open: Arc::default(), _cut: cut };
        let agreed = self.handler.clone().serve_with_lifecycle(transport, lifecycle).await;
        let service = agreed.map_err(|error| {
            let known =
                fault.as_ref().and_then(|fault| fault.lock().unwrap_or_else(PoisonError::into_inner).clone());
            describe(&error, known, self.server)
        })?;
        // A cached listing may be outdated and must not be compared with the accepted one.
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        let info = service.peer().peer_info();
        let has_handshake = info.as_ref().is_none_or(|info| info.protocol_version.has_initialize());
        let peer = service.peer().clone();
        let service = tokio::sync::Mutex::new(Some(service));
        Ok(Connection {
            library: Box::new(LibraryState { peer, info, service }),
            handler: self.handler.clone(),
            sent: SentTools::default(),
            era: if has_handshake { with_handshake } else { ServerEra::Modern },
            ended,
            in_flight: TaskTracker::new(),
            fault,
            lost: OnceLock::new(),
        })
    }
}

fn describe(error: &ClientInitializeError, fault: Option<String>, server: &ServerConfig) -> ConnectError {
    if wants_sign_in(error) {
        return unauthorised_error(server);
    }
    let why = match error {
        ClientInitializeError::TransportError { error, .. } => root_cause(&*error.error),
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            return describe(fallback, fault, server);
        }
        other => other.to_string(),
    };
    ConnectError { stage: FailureStage::Handshake, why: fault.unwrap_or(why), is_refused: false }
}

fn unauthorised_error(server: &ServerConfig) -> ConnectError {
    let why = if server.takes_sign_in() {
        format!("it wants a sign-in: `zk mcp login {}`", server.name)
    } else {
        "it does not accept the `Authorization` in its `headers`".to_owned()
    };
    ConnectError { stage: FailureStage::Auth, why, is_refused: false }
}

#[cfg(feature = "http")]
fn wants_sign_in(error: &ClientInitializeError) -> bool {
    error.is_authorization_required() || error.auth_challenge().is_some()
}

#[cfg(not(feature = "http"))]
fn wants_sign_in(_: &ClientInitializeError) -> bool {
    false
}

/// Returns the innermost cause, since the outer ones only repeat the context.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// A connection to a server. Dropping it ends the server, if it is a program.
pub(crate) struct Connection {
    library: Box<dyn Library>,
    pub(crate) handler: Handler,
    era: ServerEra,
    /// Names of all tools in the server's last list, for HTTP.
    pub(super) sent: SentTools,
    /// Cancelled when no more messages can arrive.
    pub(crate) ended: CancellationToken,
    /// Requests that wait for an answer.
    pub(super) in_flight: TaskTracker,
    fault: Option<Arc<Mutex<Option<String>>>>,
    /// Set once the connection was lost.
    lost: OnceLock<Lost>,
}

/// Loss of a connection, after which it cannot be used.
struct Lost {
    why: String,
    /// Whether only the session was lost.
    is_session: bool,
}

/// A prompt that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompted {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Names of the arguments, with a flag for required ones.
    pub(crate) arguments: Vec<(String, bool)>,
}

impl From<Prompt> for Prompted {
    fn from(prompt: Prompt) -> Self {
        let arguments = prompt.arguments.unwrap_or_default().into_iter();
        Self {
            name: prompt.name,
            description: prompt.description.unwrap_or_default(),
            arguments: arguments.map(|one| (one.name, one.required.unwrap_or(false))).collect(),
        }
    }
}

impl Connection {
    /// Returns the peer for sending to the server.
    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.library.state().peer
    }

    fn info(&self) -> Option<&ServerPeerInfo> {
        self.library.state().info.as_deref()
    }

    /// Returns the negotiated protocol revision.
    pub(crate) fn protocol(&self) -> String {
        self.info().map_or(String::new(), |info| info.protocol_version.to_string())
    }

    pub(crate) fn era(&self) -> ServerEra {
        self.era
    }

    /// Returns the server's usage instructions; `None` if they are blank.
    pub(crate) fn instructions(&self) -> Option<&str> {
        self.info()?.instructions.as_deref().filter(|text| !text.trim().is_empty())
    }

    pub(crate) fn has_tools(&self) -> bool {
        self.info().is_none_or(|info| info.capabilities.tools.is_some())
    }

    pub(crate) fn has_resources(&self) -> bool {
        self.info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    pub(crate) fn has_prompts(&self) -> bool {
        self.info().is_some_and(|info| info.capabilities.prompts.is_some())
    }

    pub(crate) fn changed(&self) -> &Arc<ListChanged> {
        &self.handler.changed
    }

    /// Returns the known cause of the connection's end.
    pub(crate) fn fault(&self) -> String {
        let fault = self
            .fault
            .as_ref()
            .and_then(|fault| fault.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let lost = || self.lost.get().map(|lost| lost.why.clone());
        fault.or_else(lost).unwrap_or_else(|| "it closed the connection".to_owned())
    }

    pub(super) fn has_skills(&self) -> bool {
        self.info().is_some_and(|info| info.capabilities.supports_skills())
    }

    /// Whether the negotiated revision begins with a handshake.
    pub(super) fn has_handshake(&self) -> bool {
        self.info().is_none_or(|info| info.protocol_version.has_initialize())
    }

    /// Marks the connection as lost, so that a new one is made.
    pub(super) fn mark_lost(&self, why: String, is_session: bool) {
        let _ = self.lost.set(Lost { why, is_session });
        self.ended.cancel();
    }

    /// Whether only the session was lost.
    pub(crate) fn has_lost_session(&self) -> bool {
        self.lost.get().is_some_and(|lost| lost.is_session)
    }

    /// Closes the connection and ends its program.
    pub(crate) async fn close(&self) {
        if let Some(mut service) = self.library.state().service.lock().await.take() {
            let _ = service.close_with_timeout(CLOSING_TIME_LIMIT).await;
        }
        self.ended.cancel();
    }
}

/// Transport that signals its end, and drops responses without a matching request, which could be taken for
/// another's.
struct Guarded<T> {
    inner: T,
    ended: CancellationToken,
    /// Ids of requests without an answer.
    open: Arc<Mutex<HashSet<RequestId>>>,
    /// Guard that cancels requests being sent.
    _cut: Option<DropGuard>,
}

impl<T> Guarded<T> {
    /// Whether a message is expected: any request or notification, or the response to an open request.
    fn is_wanted(&self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => &response.id,
            JsonRpcMessage::Error(error) => match &error.id {
                Some(id) => id,
                // An error response without an id: the server could not parse a message.
                None => return true,
            },
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return true,
        };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for Guarded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(request.id.clone());
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        while let Some(message) = self.inner.receive().await {
            if self.is_wanted(&message) {
                return Some(message);
            }
        }
        self.ended.cancel();
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.ended.cancel();
        self.inner.close().await
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}
