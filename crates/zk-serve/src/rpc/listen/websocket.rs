use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN,
    REFERRER_POLICY, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role as Side, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::super::client::{self, Door};
use super::super::server::RpcServer;
use super::super::wire::attach::Role;
use crate::web::{self, WebDoor};
use crate::{LineReader, MAX_LINE_BYTES};

/// Path of the WebSocket.
const PATH: &str = "/rpc";

/// Path at which the key of a link is exchanged for a token.
const KEY_PATH: &str = "/session";

/// Most bytes of the key of a link.
const MAX_KEY_BYTES: usize = 256;

/// Subprotocols that a client offers: the spoken one, and one that is this prefix and the token.
const PROTOCOL: &str = "zk.rpc";
const TOKEN_PROTOCOL: &str = "zk.token.";

/// Most connections at once.
const MAX_CONNECTIONS: usize = 64;

/// Time limit for the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// Bytes between a WebSocket and its client.
const PIPE_BYTES: usize = 64 * 1024;

/// Most bytes of a message to a client.
const MAX_SENT_BYTES: usize = 256 << 20;

type Reply = Response<Full<Bytes>>;

/// Address of this machine at which programs connect by WebSocket.
#[derive(Debug)]
pub struct RpcWebSocket {
    listener: TcpListener,
    address: SocketAddr,
}

impl RpcWebSocket {
    /// Listens at a loopback address.
    ///
    /// # Errors
    /// When others reach it, or it is in use.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let why = format!("{address} can be reached from elsewhere: use 127.0.0.1 or [::1]");
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns the address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the WebSocket.
    #[must_use]
    pub fn url(&self) -> String {
        format!("ws://{}{PATH}", self.address)
    }
}

impl RpcServer {
    /// Serves programs with a token by WebSocket until an error of the listener.
    pub async fn serve_websocket(self: &Arc<Self>, socket: &RpcWebSocket) -> io::Result<()> {
        self.serve_http(socket, None).await
    }

    /// Serves programs with a token, and the page with the links of `door`, until an error of the listener.
    pub async fn serve_web(self: &Arc<Self>, socket: &RpcWebSocket, door: &Arc<WebDoor>) -> io::Result<()> {
        self.serve_http(socket, Some(door)).await
    }

    async fn serve_http(
        self: &Arc<Self>,
        socket: &RpcWebSocket,
        door: Option<&Arc<WebDoor>>,
    ) -> io::Result<()> {
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { return Ok(()) };
            let (stream, _) = match socket.listener.accept().await {
                Ok(accepted) => accepted,
                // A connection that broke off early is no error of the listener.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            while connections.try_join_next().is_some() {}
            let gate = Arc::new(Gate { server: self.clone(), address: socket.address, door: door.cloned() });
            connections.spawn(async move {
                gate.serve(stream).await;
                drop(permit);
            });
        }
    }
}

/// Checks of a connection before it becomes a client.
struct Gate {
    server: Arc<RpcServer>,
    address: SocketAddr,
    /// Door of the page, where there is one.
    door: Option<Arc<WebDoor>>,
}

impl Gate {
    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let (admit, admitted) = tokio::sync::oneshot::channel();
        let admit = Arc::new(std::sync::Mutex::new(Some(admit)));
        let gate = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (gate, admit) = (gate.clone(), admit.clone());
            async move {
                if request.method() == Method::POST {
                    return Ok::<_, Infallible>(gate.exchange(request).await);
                }
                let (reply, upgrade) = gate.answer(request);
                let admit = admit.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
                if let (Some(admit), Some(upgrade)) = (admit, upgrade) {
                    // The connection may have broken off since.
                    let _ = admit.send(upgrade);
                }
                Ok(reply)
            }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).keep_alive(false);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        // A connection that breaks off needs no answer.
        let _ = connection.await;
        if let Ok((role, upgrade)) = admitted.await
            && let Ok(upgraded) = upgrade.await
        {
            self.carry_messages(TokioIo::new(upgraded), role).await;
        }
    }

    /// Returns the answer to a request; if it becomes a WebSocket, also the role that its token allows.
    fn answer(&self, mut request: Request<Incoming>) -> (Reply, Option<(Role, OnUpgrade)>) {
        let refuse = |status: StatusCode, why: &str| (refusal(status, why), None);
        let headers = request.headers();
        if !self.is_own_host(headers) {
            return refuse(StatusCode::FORBIDDEN, "`Host` does not name this server");
        }
        if !self.is_own_origin(headers) {
            return refuse(StatusCode::FORBIDDEN, "`Origin` is another page");
        }
        if self.door.is_some() && request.method() == Method::GET && request.uri().path() == "/" {
            return match served_page() {
                Ok(page) => (page, None),
                Err(why) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &why),
            };
        }
        if request.method() != Method::GET || request.uri().path() != PATH {
            return refuse(StatusCode::NOT_FOUND, "there is only /rpc, a WebSocket");
        }
        let Some(key) = websocket_key(headers) else {
            return refuse(StatusCode::UPGRADE_REQUIRED, "this is a WebSocket of version 13");
        };
        let accept = derive_accept_key(key.as_bytes());
        let Some(role) = bearer_token(headers).and_then(|token| self.server.options.tokens.role_of(token))
        else {
            let why = "a token is missing or wrong: `Authorization: Bearer TOKEN`, or the protocols \
                       `zk.rpc` and `zk.token.TOKEN`";
            return refuse(StatusCode::UNAUTHORIZED, why);
        };
        let offers_protocol = offered_protocols(headers).any(|protocol| protocol == PROTOCOL);
        let upgrade = hyper::upgrade::on(&mut request);
        let mut reply = Response::new(Full::default());
        *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = reply.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if offers_protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
        }
        (reply, Some((role, upgrade)))
    }

    /// Exchanges the key of a link, which works once, for an approver's token.
    async fn exchange(&self, request: Request<Incoming>) -> Reply {
        let headers = request.headers();
        let is_own_page = self.is_own_host(headers)
            && matches!(only_value(headers, ORIGIN), Some(Some(_)))
            && self.is_own_origin(headers);
        let Some(door) = self.door.as_ref().filter(|_| request.uri().path() == KEY_PATH) else {
            return refusal(StatusCode::NOT_FOUND, "there is nothing to post to here");
        };
        if !is_own_page {
            return refusal(StatusCode::FORBIDDEN, "only the page of this server gets in by a link");
        }
        let body = timeout(HEAD_LIMIT, Limited::new(request.into_body(), MAX_KEY_BYTES).collect()).await;
        let key = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
        if !std::str::from_utf8(&key).is_ok_and(|key| door.accept_key(key.trim())) {
            return refusal(
                StatusCode::FORBIDDEN,
                "this link was used, or its time is over: make another one",
            );
        }
        let token = self.server.options.tokens.reveal(Role::Approver).to_owned();
        let mut reply = Response::new(Full::new(Bytes::from(token)));
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        reply
    }

    /// Whether the only `Host` header names this server. Other names come from pages that use DNS rebinding.
    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        only_value(headers, HOST).flatten().is_some_and(|host| self.own_hosts().iter().any(|own| own == host))
    }

    /// Whether the request comes from a page of this server, or from no page at all.
    fn is_own_origin(&self, headers: &HeaderMap) -> bool {
        match only_value(headers, ORIGIN) {
            Some(None) => true,
            Some(Some(origin)) => self.own_hosts().iter().any(|own| origin == format!("http://{own}")),
            None => false,
        }
    }

    fn own_hosts(&self) -> [String; 2] {
        [self.address.to_string(), format!("localhost:{}", self.address.port())]
    }

    /// Carries messages between a WebSocket and a client, one per line.
    async fn carry_messages(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, role: Role) {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_LINE_BYTES))
            .max_frame_size(Some(MAX_LINE_BYTES));
        let socket = WebSocketStream::from_raw_socket(stream, Side::Server, Some(config)).await;
        let (mut sink, mut source) = socket.split();
        let ((mut typed, from), (to, printed)) = (duplex(PIPE_BYTES), duplex(PIPE_BYTES));
        let refused = OnceLock::new();
        let receiving = async {
            while let Some(message) = source.next().await {
                let mut line = match message {
                    Ok(Message::Text(text)) => text.as_str().as_bytes().to_vec(),
                    Ok(Message::Binary(bytes)) => bytes.to_vec(),
                    Ok(Message::Close(_)) => break,
                    Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => continue,
                    Err(error) => {
                        // The loop ends at the first error.
                        let _ = refused.set(error);
                        break;
                    }
                };
                // A message becomes one line, so line ends in its JSON are replaced.
                line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
                line.push(b'\n');
                if typed.write_all(&line).await.is_err() {
                    break;
                }
            }
            drop(typed);
        };
        let sending = async {
            let mut lines = LineReader::new(printed).limited_to(MAX_SENT_BYTES);
            while let Ok(Some(line)) = lines.next().await {
                if sink.send(Message::text(line)).await.is_err() {
                    return;
                }
            }
            if let Some(Error::Capacity(error)) = refused.get() {
                let reason = format!("a message has at most {MAX_LINE_BYTES} bytes: {error}");
                let frame = CloseFrame { code: CloseCode::Size, reason: reason.into() };
                // The other side may be gone already.
                let _ = sink.send(Message::Close(Some(frame))).await;
            }
            // The other side may be gone already.
            let _: Result<(), Error> = sink.close().await;
        };
        let client = client::serve(&self.server, from, to, Door::Token(role));
        tokio::join!(receiving, sending, client);
    }
}

fn refusal(status: StatusCode, why: &str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(format!("{why}\n"))));
    *reply.status_mut() = status;
    reply
}

/// Returns the page with headers that restrict it in the browser.
fn served_page() -> Result<Reply, String> {
    let page = web::page().map_err(|error| error.to_string())?;
    let policy = HeaderValue::from_str(&page.content_security_policy).map_err(|error| error.to_string())?;
    let mut reply = Response::new(Full::new(Bytes::from(page.html)));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(reply)
}

/// Returns a header's only value: `Some(None)` if the header is missing, `None` if there are several.
fn only_value(headers: &HeaderMap, name: http::HeaderName) -> Option<Option<&str>> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Some(None),
        (Some(value), None) => value.to_str().ok().map(Some),
        (Some(_), Some(_)) => None,
    }
}

fn websocket_key(headers: &HeaderMap) -> Option<&str> {
    let has = |name, wanted: &str| {
        let value = headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        value.is_some_and(|value| value.split(',').any(|word| word.trim().eq_ignore_ascii_case(wanted)))
    };
    let is_websocket =
        has(UPGRADE, "websocket") && has(CONNECTION, "upgrade") && has(SEC_WEBSOCKET_VERSION, "13");
    headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()).filter(|_| is_websocket)
}

fn offered_protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let bearer = only_value(headers, AUTHORIZATION).flatten().and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    bearer.or_else(|| offered_protocols(headers).find_map(|protocol| protocol.strip_prefix(TOKEN_PROTOCOL)))
}
