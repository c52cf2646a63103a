//! Streamable HTTP for programs on this machine that have the token.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ring::rand::{SecureRandom, SystemRandom};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::McpServer;
use super::handler::Handler;
use crate::config::canonical::sha256_hex;

/// URL path of the server.
const PATH: &str = "/mcp";
/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 64;
/// Time limit for the head of a request.
const HEAD_TIME_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for closing connections.
const CLOSING_TIME_LIMIT: Duration = Duration::from_secs(2);

/// Token that a client has to send as `Authorization: Bearer TOKEN`.
#[derive(Clone)]
pub struct ServeToken(String);

impl std::fmt::Debug for ServeToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServeToken(…)")
    }
}

impl ServeToken {
    /// Creates a token of 256 random bits.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; 32];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Uses a given token, which must have at least 16 characters so that it cannot be guessed.
    ///
    /// # Errors
    /// When it is too short, or has a character that a header must not contain.
    pub fn given(token: &str) -> io::Result<Self> {
        if token.len() < 16 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "a token needs at least 16 characters, visible ones of ASCII only";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Self(token.to_owned()))
    }

    /// Returns the token itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether the headers contain the token. Digests are compared, so that timing does not reveal the token.
    fn is_in_headers(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        let given = value.to_str().ok().and_then(|value| value.split_once(' '));
        given.is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case("bearer")
                && sha256_hex(given.trim().as_bytes()) == sha256_hex(self.0.as_bytes())
        })
    }
}

type Reply = Response<BoxBody<Bytes, Infallible>>;
type Service = StreamableHttpService<Handler, LocalSessionManager>;

impl McpServer {
    /// Serves clients at `http://ADDRESS/mcp` until `stop` is cancelled.
    ///
    /// Only clients on this machine with the token are served, and no web pages from elsewhere: `Host` and
    /// `Origin` have to name this machine.
    ///
    /// A boxed future, so that it is compiled in this crate instead of in each crate that awaits it.
    ///
    /// # Errors
    /// When `listener` is not bound to a loopback address.
    pub fn http(
        &self,
        listener: TcpListener,
        token: ServeToken,
        stop: CancellationToken,
    ) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let address = listener.local_addr()?;
            if !address.ip().is_loopback() {
                let why = format!("{address} can be reached from elsewhere: use 127.0.0.1 or [::1]");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            let handler = self.handler();
            let config = StreamableHttpServerConfig::default()
                .with_cancellation_token(stop.child_token())
                .with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"]);
            let make = move || Ok(handler.clone());
            let service = StreamableHttpService::new(make, Arc::new(LocalSessionManager::default()), config);
            let door = Arc::new(Door { service, token, address });
            let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
            let connections = TaskTracker::new();
            loop {
                let accepted = tokio::select! {
                    () = stop.cancelled() => break,
                    accepted = async {
                        let permit = room.clone().acquire_owned().await;
                        (permit, listener.accept().await)
                    } => accepted,
                };
                match accepted {
                    (Ok(permit), Ok((stream, _))) => {
                        let (door, stop) = (door.clone(), stop.clone());
                        connections.spawn(async move {
                            door.serve(stream, &stop).await;
                            drop(permit);
                        });
                    }
                    // A temporary failure, such as too few file handles.
                    (_, _) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
            connections.close();
            let _ = tokio::time::timeout(CLOSING_TIME_LIMIT, connections.wait()).await;
            Ok(())
        })
    }
}

/// Access check between a connection and the server.
struct Door {
    service: Service,
    token: ServeToken,
    address: SocketAddr,
}

impl Door {
    async fn serve(self: Arc<Self>, stream: TcpStream, stop: &CancellationToken) {
        let answer = service_fn(move |request| {
            let door = self.clone();
            async move { Ok::<_, Infallible>(door.answer(request).await) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_LIMIT);
        let connection = http.serve_connection(TokioIo::new(stream), answer);
        tokio::select! {
            _ = connection => {}
            () = stop.cancelled() => {}
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if let Some(refused) = self.refuse(&request) {
            return refused;
        }
        self.service.handle(request).await
    }

    /// Returns the refusal of an unauthorised request. The order of the checks reveals the least to
    /// strangers.
    fn refuse<B>(&self, request: &Request<B>) -> Option<Reply> {
        let headers = request.headers();
        if !self.names_this_machine(headers) {
            return Some(plain_response(StatusCode::FORBIDDEN, "only programs of this machine are served"));
        }
        if !self.token.is_in_headers(headers) {
            let mut reply = plain_response(StatusCode::UNAUTHORIZED, "the token is missing or another one");
            reply.headers_mut().insert(WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
            return Some(reply);
        }
        (request.uri().path() != PATH).then(|| plain_response(StatusCode::NOT_FOUND, "the path is /mcp"))
    }

    /// Whether `Host` and `Origin` name this machine: a remote page whose host name resolves to this machine
    /// has others.
    fn names_this_machine(&self, headers: &HeaderMap) -> bool {
        let port = self.address.port();
        let is_here = |authority: &str| {
            let host = authority.strip_suffix(&format!(":{port}")).unwrap_or(authority);
            ["127.0.0.1", "localhost", "[::1]"].contains(&host)
        };
        let text = |value: &http::HeaderValue| value.to_str().map(str::to_owned).ok();
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => text(host).is_some_and(|host| is_here(&host)),
            (_, _) => false,
        };
        let origins = headers.get_all(ORIGIN).iter();
        let is_own = |origin: String| {
            let rest = origin.strip_prefix("http://");
            rest.is_some_and(|rest| {
                let host = rest.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
                is_here(host.map_or(rest, |(host, _)| host))
            })
        };
        host && origins.map(text).all(|origin| origin.is_some_and(is_own))
    }
}

fn plain_response(status: StatusCode, text: &'static str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *reply.status_mut() = status;
    reply
}
