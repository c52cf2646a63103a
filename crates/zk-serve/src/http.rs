//! Accepting HTTP connections on this machine.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, header::AUTHORIZATION};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Most connections at once.
const MAX_CONNECTIONS: usize = 256;

/// Time limit for the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// Body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Address of this machine at which clients of an HTTP service connect; a proxy in front adds TLS for other machines.
#[derive(Debug)]
pub struct LoopbackListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl LoopbackListener {
    /// Listens at a loopback address.
    ///
    /// # Errors
    /// When others reach the address, or it is in use.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let why = format!("{address} can be reached from elsewhere: use 127.0.0.1 and a proxy with TLS");
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Answers requests until an error of the listener.
pub(crate) async fn serve_connections<F, A>(listener: &LoopbackListener, answer: F) -> io::Result<()>
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let permit = room.clone().acquire_owned().await;
        let (permit, stream) = match (permit, listener.listener.accept().await) {
            (Ok(permit), Ok((stream, _))) => (permit, stream),
            (Err(_), _) => return Ok(()),
            // A connection that broke off early is no error of the listener.
            (_, Err(error)) if error.kind() == ErrorKind::ConnectionAborted => continue,
            (_, Err(error)) => return Err(error),
        };
        while connections.try_join_next().is_some() {}
        let answer = answer.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
            // A connection that breaks off needs no answer.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

/// Returns the bearer token of a request.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}
