use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use serde::de::DeserializeOwned;
use tokio::time::{interval, timeout};
use zk_core::model::SessionId;
use zk_core::service::{
    Durability, LiveEntries, Lock, NewSession, OpenSession, SessionFilter, SessionStore, StoreError,
};
use zk_stores::wire::{
    AppendReply, AppendRequest, CreateRequest, Done, HandleRequest, ListReply, ListRequest,
    MAX_MESSAGE_BYTES, OpenReply, OpenRequest, PROTOCOL_VERSION, ReadRequest, RenameRequest, StreamEnd,
    VERSION_HEADER, WireError, operation,
};

use super::answer::{answer, json, refusal};
use super::held::{Held, HeldSessions};
use super::stream::{Lines, lines};
use crate::http::{Body, LoopbackListener, bearer_token, serve_connections};
use crate::rpc::token::{is_same, random_hex};

/// Time after which a session is closed whose client has not renewed its lease.
const LEASE: Duration = Duration::from_secs(30);

/// Interval between checks for leases that have ended.
const LEASE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for the body of a request.
const BODY_LIMIT: Duration = Duration::from_secs(60);

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// Random bytes in the name of a lease.
const HANDLE_BYTES: usize = 16;

/// Creates a token that nobody guesses.
///
/// # Errors
/// When the system has no random numbers.
pub fn new_token() -> io::Result<String> {
    random_hex(TOKEN_BYTES)
}

/// Server of a session store for other processes, `zk_stores::RemoteStore`.
///
/// ```no_run
/// # async fn serve(store: std::sync::Arc<dyn zk_core::service::SessionStore>) -> std::io::Result<()> {
/// use zk_serve::LoopbackListener;
/// use zk_serve::sessions::SessionServer;
///
/// let server = SessionServer::new(store, "a long random token".to_owned());
/// let listener = LoopbackListener::bind("127.0.0.1:0".parse().unwrap()).await?;
/// println!("{}", listener.url());
/// server.serve(&listener).await
/// # }
/// ```
pub struct SessionServer {
    store: Arc<dyn SessionStore>,
    token: String,
    held: HeldSessions,
}

impl fmt::Debug for SessionServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionServer").finish_non_exhaustive()
    }
}

impl SessionServer {
    /// Server of `store` for clients with `token`.
    #[must_use]
    pub fn new(store: Arc<dyn SessionStore>, token: String) -> Arc<Self> {
        Self::with_lease(store, token, LEASE)
    }

    /// Server with another time after which a session is closed whose client is silent.
    #[must_use]
    pub fn with_lease(store: Arc<dyn SessionStore>, token: String, lease: Duration) -> Arc<Self> {
        Arc::new(Self { store, token, held: HeldSessions::new(lease) })
    }

    /// Serves clients until an error of the listener.
    ///
    /// # Errors
    /// When no more connections can be accepted.
    pub async fn serve(self: &Arc<Self>, listener: &LoopbackListener) -> io::Result<()> {
        let server = self.clone();
        let serving = serve_connections(listener, move |request| server.clone().answer(request));
        let mut looks = interval(LEASE_CHECK_INTERVAL);
        let looking = async {
            loop {
                looks.tick().await;
                self.held.end_leases().await;
            }
        };
        tokio::select! {
            served = serving => served,
            never = looking => never,
        }
    }

    /// Closes all sessions that clients have open.
    pub async fn close(&self) {
        self.held.close_all().await;
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let operation = match self.admit(&request) {
            Ok(operation) => operation,
            Err(error) => return refusal(&error),
        };
        let body = timeout(BODY_LIMIT, Limited::new(request.into_body(), MAX_MESSAGE_BYTES).collect()).await;
        let body = match body {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) => return refusal(&WireError::Invalid { why: error.to_string() }),
            Err(_) => return refusal(&WireError::Invalid { why: "it does not end".to_owned() }),
        };
        // Runs as a separate task, so that an append is completed even if its client goes away.
        let done = tokio::spawn(async move { self.perform_operation(&operation, &body).await });
        match done.await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => refusal(&error),
            Err(error) => refusal(&WireError::Failed { why: error.to_string() }),
        }
    }

    /// Checks the head of a request; returns the name of its operation.
    fn admit(&self, request: &Request<Incoming>) -> Result<String, WireError> {
        let headers = request.headers();
        if !bearer_token(headers).is_some_and(|token| is_same(token, &self.token)) {
            return Err(WireError::Unauthorised);
        }
        let version = headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
        if version != Some(PROTOCOL_VERSION) {
            return Err(WireError::Version { server: PROTOCOL_VERSION });
        }
        match (request.method(), request.uri().path().strip_prefix("/v1/")) {
            (&Method::POST, Some(operation)) => Ok(operation.to_owned()),
            _ => Err(WireError::Invalid { why: "there is only POST /v1/NAME".to_owned() }),
        }
    }

    async fn perform_operation(
        self: Arc<Self>,
        name: &str,
        body: &Bytes,
    ) -> Result<Response<Body>, WireError> {
        match name {
            operation::CREATE => {
                let CreateRequest { id, cwd, parent, pid } = parse_body(body)?;
                let open = self.store.create(NewSession { id, cwd, parent }).await?;
                json(&self.add_open_session(open, pid).await?)
            }
            operation::OPEN => {
                let OpenRequest { id, pid } = parse_body(body)?;
                self.held.end_leases().await;
                let open = self.store.open(&id).await.map_err(|error| self.with_client_pid(error))?;
                json(&self.add_open_session(open, pid).await?)
            }
            operation::RENEW => {
                self.renew_held(body)?;
                json(&Done {})
            }
            operation::APPEND => json(&self.append(parse_body(body)?).await?),
            operation::CLOSE => {
                let HandleRequest { handle } = parse_body(body)?;
                let held = self.held.remove(&handle).ok_or(WireError::NoHandle)?;
                held.open.close().await?;
                json(&Done {})
            }
            operation::LIST => {
                let ListRequest { cwd, limit, unanswered } = parse_body(body)?;
                let mut sessions = self.store.list(&SessionFilter { cwd, limit, unanswered }).await?;
                for info in &mut sessions {
                    if let Some(pid) = self.held.pid_of(&info.id) {
                        info.lock = Some(Lock { pid });
                    }
                }
                json(&ListReply { sessions })
            }
            operation::DELETE => {
                let ReadRequest { id, .. } = parse_body(body)?;
                self.held.end_leases().await;
                self.store.delete(&id).await.map_err(|error| self.with_client_pid(error))?;
                json(&Done {})
            }
            operation::RENAME => {
                let RenameRequest { id, title } = parse_body(body)?;
                self.store.rename(&id, &title).await?;
                json(&Done {})
            }
            operation::ENTRIES | operation::TREE | operation::LIVE => {
                let held = self.renew_held(body)?;
                let name = name.to_owned();
                Ok(stream_answer(|lines| async move { stream_open(&held, &name, &lines).await }))
            }
            operation::SCAN | operation::SCAN_TREE | operation::READ_LIVE | operation::LAST_ENTRIES => {
                let request: ReadRequest = parse_body(body)?;
                let name = name.to_owned();
                Ok(stream_answer(|lines| async move { self.stream_stored(&request, &name, &lines).await }))
            }
            _ => Err(WireError::Invalid { why: format!("there is no operation `{name}`") }),
        }
    }

    /// Adds a session to those that clients have open.
    async fn add_open_session(&self, open: Arc<dyn OpenSession>, pid: u32) -> Result<OpenReply, WireError> {
        let handle =
            random_hex(HANDLE_BYTES).map_err(|error| WireError::Failed { why: error.to_string() })?;
        // The entries before the last compaction are not read for the leaf.
        let leaf = open.live().await?.entries.pop().map(|entry| entry.id);
        let reply = OpenReply {
            handle: handle.clone(),
            id: open.id().clone(),
            cwd: open.cwd(),
            notices: open.notices(),
            leaf,
            lease_ms: self.held.lease_ms(),
        };
        if self.held.add(handle, open.clone(), pid) {
            return Ok(reply);
        }
        open.close().await?;
        Err(WireError::Failed { why: "too many sessions are open on the server".to_owned() })
    }

    fn renew_held(&self, body: &Bytes) -> Result<Arc<Held>, WireError> {
        let HandleRequest { handle } = parse_body(body)?;
        self.held.renew(&handle).ok_or(WireError::NoHandle)
    }

    async fn append(&self, request: AppendRequest) -> Result<AppendReply, WireError> {
        let held = self.held.renew(&request.handle).ok_or(WireError::NoHandle)?;
        let mut last = held.last.lock().await;
        if let Some((append, ids)) = &*last
            && *append == request.append
        {
            return Ok(AppendReply { ids: ids.clone(), notices: held.open.notices() });
        }
        if let Some(branch) = request.branch {
            held.open.note_branch(branch);
        }
        let durability = if request.disk { Durability::Disk } else { Durability::Process };
        let ids = held.open.append(request.kinds, durability).await?;
        *last = Some((request.append, ids.clone()));
        Ok(AppendReply { ids, notices: held.open.notices() })
    }

    /// Names the client that has a session open, in place of this process.
    fn with_client_pid(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::InUse { id, pid } => {
                let pid = self.held.pid_of(&id).unwrap_or(pid);
                StoreError::InUse { id, pid }
            }
            other => other,
        }
    }

    async fn stream_stored(
        &self,
        request: &ReadRequest,
        name: &str,
        lines: &Lines,
    ) -> Result<StreamEnd, StoreError> {
        let ReadRequest { id, most } = request;
        match name {
            operation::LAST_ENTRIES => {
                lines.send_all(self.store.last_entries(id, *most).await?).await;
                Ok(StreamEnd::default())
            }
            operation::READ_LIVE => Ok(stream_live(self.store.read_live(id).await?, lines).await),
            operation::SCAN_TREE => Ok(self.scan_end(id, self.store.scan_tree(id, lines.visitor()).await?)),
            _ => Ok(self.scan_end(id, self.store.scan(id, lines.visitor()).await?)),
        }
    }

    fn scan_end(&self, id: &SessionId, scan: zk_core::service::SessionScan) -> StreamEnd {
        let mut info = scan.info;
        if let Some(pid) = self.held.pid_of(id) {
            info.lock = Some(Lock { pid });
        }
        StreamEnd { info: Some(info), notices: scan.notices, ..StreamEnd::default() }
    }
}

async fn stream_open(held: &Held, name: &str, lines: &Lines) -> Result<StreamEnd, StoreError> {
    match name {
        operation::LIVE => Ok(stream_live(held.open.live().await?, lines).await),
        operation::TREE => {
            let notices = held.open.scan_tree(lines.visitor()).await?;
            Ok(StreamEnd { notices, ..StreamEnd::default() })
        }
        _ => {
            lines.send_all(held.open.entries().await?).await;
            Ok(StreamEnd::default())
        }
    }
}

async fn stream_live(live: LiveEntries, lines: &Lines) -> StreamEnd {
    let LiveEntries { entries, tail, earlier } = live;
    lines.send_all(entries).await;
    StreamEnd { tail, earlier, ..StreamEnd::default() }
}

/// Answers with the entries that `send` sends, while they are read.
fn stream_answer<F>(send: impl FnOnce(Lines) -> F) -> Response<Body>
where
    F: Future<Output = Result<StreamEnd, StoreError>> + Send + 'static,
{
    let (lines, body) = lines();
    let sending = send(lines.clone());
    tokio::spawn(async move { lines.finish(sending.await).await });
    answer(StatusCode::OK, body)
}

fn parse_body<T: DeserializeOwned>(body: &Bytes) -> Result<T, WireError> {
    serde_json::from_slice(body).map_err(|error| WireError::Invalid { why: error.to_string() })
}
