use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_view::Intent;

use super::conversation::Shared;
use super::message::{self, Incoming, RpcError};
use super::methods::Method;
use super::server::RpcServer;
use super::token::new_id;
use super::wire::attach::{
    AttachedClient, ClientInfo, InitializeParams, InitializeResult, RPC_VERSION, Role,
};
use super::wire::conversation::SubscribeResult;
use super::wire::refusal::Refusal;
use crate::{LineError, LineReader, LineWriter};

/// Longest time until the first request of a client at a socket.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);

/// Longest wait for answers to a client that sends no more requests.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// Maximum number of a client's requests that run at the same time.
const MAX_IN_FLIGHT: usize = 64;

/// Number of bytes queued for a client from which its notifications are held back.
const MAX_AHEAD_BYTES: usize = 1 << 20;

/// Maximum length of a client's name and version in characters.
const MAX_NAME_CHARS: usize = 100;

/// Origin of a client's connection, which decides on the roles it may have without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// Pipes of the program that started this one.
    Parent,
    /// A socket, connected by the same user.
    Peer,
    /// A connection whose token was checked already.
    Token(Role),
}

impl Door {
    fn allows(self) -> Role {
        match self {
            Self::Parent => Role::Approver,
            Self::Peer => Role::Driver,
            Self::Token(role) => role,
        }
    }
}

/// Client that is connected.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) server: Arc<RpcServer>,
    writer: LineWriter,
    door: Door,
    attached: OnceLock<Attached>,
    follows: Mutex<BTreeMap<String, JoinHandle<()>>>,
    /// Conversations to which the client sent prompts.
    drove: Mutex<BTreeSet<String>>,
    in_flight: AtomicUsize,
    /// Signal that a slow request was answered.
    answered: Notify,
    /// Start signals of subscriptions, sent after the answer to the subscribing request.
    starts: Mutex<Vec<oneshot::Sender<()>>>,
}

/// Facts about a client after its `initialize`.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) id: String,
    pub(super) role: Role,
    info: ClientInfo,
    stop_on_disconnect: bool,
}

/// Serves a client until its stream ends.
pub(super) async fn serve(
    server: &Arc<RpcServer>,
    from: impl AsyncRead + Send + Unpin,
    to: impl AsyncWrite + Send + Unpin + 'static,
    door: Door,
) {
    let client = Arc::new(Client {
        server: server.clone(),
        writer: LineWriter::new(to),
        door,
        attached: OnceLock::new(),
        follows: Mutex::default(),
        drove: Mutex::default(),
        in_flight: AtomicUsize::new(0),
        answered: Notify::new(),
        starts: Mutex::default(),
    });
    let number = server.add_client(&client);
    client.read(LineReader::new(from)).await;
    // A program may send all of its requests at once, and read the answers later.
    let _ = timeout(DRAIN_LIMIT, client.wait_until_all_answered()).await;
    client.disconnect();
    server.remove_client(number);
    client.writer.close().await;
}

impl Client {
    async fn read(self: &Arc<Self>, mut lines: LineReader<impl AsyncRead + Unpin>) {
        loop {
            let limit = match (self.door, self.attached.get()) {
                (Door::Parent, _) | (_, Some(_)) => Duration::MAX,
                (Door::Peer | Door::Token(_), None) => HANDSHAKE_LIMIT,
            };
            let line = tokio::select! {
                line = timeout(limit, lines.next()) => line,
                () = self.writer.gone() => return,
            };
            match line {
                Ok(Ok(Some(line))) => self.handle_line(&line).await,
                Ok(Ok(None) | Err(LineError::Failed(_))) => return,
                Ok(Err(error @ LineError::TooLong { .. })) => {
                    self.refuse(&RpcError::new(Refusal::TooLong, error.to_string()));
                }
                Ok(Err(error @ LineError::NotUtf8)) => {
                    self.refuse(&RpcError::new(Refusal::Parse, error.to_string()));
                }
                Err(_) => {
                    let why = "no `initialize` came in time: the connection ends";
                    self.refuse(&RpcError::new(Refusal::NotInitialized, why));
                    return;
                }
            }
        }
    }

    async fn wait_until_all_answered(&self) {
        loop {
            let answered = self.answered.notified();
            if self.in_flight.load(Ordering::Relaxed) == 0 {
                return;
            }
            answered.await;
        }
    }

    fn refuse(&self, error: &RpcError) {
        self.send(&message::answer(&Value::Null, Err(error.clone())));
    }

    /// Handles a line. A slow request runs in parallel to the next lines.
    async fn handle_line(self: &Arc<Self>, line: &str) {
        let (id, method, params) = match message::read(line) {
            Ok(Incoming::Request { id, method, params }) => (id, method, params),
            Ok(Incoming::Answer) => return,
            Err((id, error)) => return self.send_reply(id.as_ref(), Err(error)),
        };
        if method == "initialize" {
            let outcome = self.initialize(&params);
            let is_new = outcome.is_ok();
            self.send_reply(id.as_ref(), outcome);
            if is_new {
                self.server.send_client_list();
            }
            return;
        }
        let allowed = self.find_method(&method);
        let (method, is_beside) = match allowed {
            Ok(method) => (method, method.is_slow()),
            Err(error) => return self.send_reply(id.as_ref(), Err(error)),
        };
        if !is_beside {
            let outcome = method.call(self, params).await;
            return self.send_reply(id.as_ref(), outcome);
        }
        if self.in_flight.fetch_add(1, Ordering::Relaxed) >= MAX_IN_FLIGHT {
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            let why = format!("{MAX_IN_FLIGHT} requests wait for their answers: send this one again later");
            return self.send_reply(id.as_ref(), Err(RpcError::new(Refusal::TooMany, why)));
        }
        let client = self.clone();
        tokio::spawn(async move {
            let outcome = method.call(&client, params).await;
            client.send_reply(id.as_ref(), outcome);
            client.in_flight.fetch_sub(1, Ordering::Relaxed);
            client.answered.notify_waiters();
        });
    }

    /// Finds a method by its name, if the client may call it now.
    fn find_method(&self, name: &str) -> Result<Method, RpcError> {
        let Some(attached) = self.attached.get() else {
            let why = "the first request is `initialize`, with `protocol_version` and `role`";
            return Err(RpcError::new(Refusal::NotInitialized, why));
        };
        let Some(method) = Method::named(name) else {
            let why =
                format!("there is no method `{}`", name.chars().take(MAX_NAME_CHARS).collect::<String>());
            let names: Vec<&str> = Method::names().collect();
            return Err(RpcError::new(Refusal::UnknownMethod, why).with(json!({ "methods": names })));
        };
        if attached.role < method.role() {
            return Err(not_allowed(&format!("`{name}`"), method.role(), attached.role));
        }
        Ok(method)
    }

    /// Fails unless the client has at least this role.
    pub(super) fn require(&self, role: Role, what: &str) -> Result<(), RpcError> {
        match self.attached.get() {
            Some(attached) if attached.role >= role => Ok(()),
            other => Err(not_allowed(what, role, other.map(|attached| attached.role).unwrap_or_default())),
        }
    }

    fn initialize(&self, params: &Value) -> Result<Value, RpcError> {
        if self.attached.get().is_some() {
            return Err(RpcError::new(Refusal::NotInitialized, "`initialize` comes once"));
        }
        let params: InitializeParams = super::params::parse(params)?;
        let major = |version: &str| version.split('.').next().unwrap_or_default().to_owned();
        if major(&params.protocol_version) != major(RPC_VERSION) {
            let why = format!("this server speaks {RPC_VERSION}, not {}", shorten(&params.protocol_version));
            return Err(RpcError::field("protocol_version", why));
        }
        let by_token = params.token.as_deref().map(|token| self.server.options.tokens.role_of(token));
        if by_token == Some(None) {
            let why = "this is no token of the server that runs now";
            return Err(RpcError::new(Refusal::NotAllowed, why).with(json!({ "field": "token" })));
        }
        let allowed = self.door.allows().max(by_token.flatten().unwrap_or_default());
        if params.role > allowed {
            let why = format!(
                "the role {} needs the token that the server wrote into its private file",
                params.role.as_str()
            );
            return Err(RpcError::new(Refusal::NotAllowed, why).with(json!({ "field": "token" })));
        }
        let ClientInfo { name, version } = &params.client;
        let attached = Attached {
            id: new_id("client").map_err(RpcError::failed)?,
            role: params.role,
            info: ClientInfo { name: shorten(name), version: shorten(version) },
            stop_on_disconnect: params.stop_on_disconnect,
        };
        let result = InitializeResult {
            protocol_version: RPC_VERSION.to_owned(),
            view_version: zk_view::PATCH_VERSION.to_owned(),
            server: ClientInfo { name: "zk".to_owned(), version: self.server.options.version.clone() },
            client: attached.id.clone(),
            role: attached.role,
            cwd: self.server.options.cwd.display().to_string(),
            conversations: self.server.rows(),
        };
        // `initialize` comes once, since lines are handled one by one.
        let _ = self.attached.set(attached);
        serde_json::to_value(result).map_err(RpcError::failed)
    }

    pub(super) fn attached(&self) -> Option<&Attached> {
        self.attached.get()
    }

    /// Id of the client.
    pub(super) fn id(&self) -> &str {
        self.attached.get().map_or("", |attached| &attached.id)
    }

    pub(super) fn row(&self) -> Option<AttachedClient> {
        let attached = self.attached.get()?;
        Some(AttachedClient {
            id: attached.id.clone(),
            client: attached.info.clone(),
            role: attached.role,
            follows: self.lock_follows().keys().cloned().collect(),
        })
    }

    /// Writes a line with secrets redacted.
    pub(super) fn send(&self, line: &str) -> bool {
        self.writer.send(&self.server.options.redactor.redact(line))
    }

    fn send_reply(&self, id: Option<&Value>, outcome: Result<Value, RpcError>) {
        if let Some(id) = id {
            self.send(&message::answer(id, outcome));
        }
        for start in std::mem::take(&mut *self.starts.lock().unwrap_or_else(PoisonError::into_inner)) {
            // A subscription that was replaced meanwhile does not start.
            let _ = start.send(());
        }
    }

    /// Records that this client sent a prompt to a conversation.
    pub(super) fn record_prompt_to(&self, conversation: &str) {
        self.drove.lock().unwrap_or_else(PoisonError::into_inner).insert(conversation.to_owned());
    }

    /// Sends the notifications of a conversation after number `after`.
    pub(super) fn follow(self: &Arc<Self>, shared: &Arc<Shared>, after: Option<u64>) -> SubscribeResult {
        let taken = shared.journal.notifications_after(after);
        let result = SubscribeResult { seq: taken.last, resync: taken.resync };
        let (writer, shared, id) = (self.writer.clone(), shared.clone(), shared.id.clone());
        let (start, started) = oneshot::channel();
        self.starts.lock().unwrap_or_else(PoisonError::into_inner).push(start);
        let following = tokio::spawn(async move {
            if started.await.is_err() {
                return;
            }
            let mut changes = shared.journal.changes();
            let mut taken = taken;
            loop {
                for line in &taken.lines {
                    // A reader that is behind gets fewer and larger patches.
                    writer.room(MAX_AHEAD_BYTES).await;
                    if !writer.send(line) {
                        return;
                    }
                }
                if taken.is_over {
                    return;
                }
                let last = taken.last;
                if changes.wait_for(|now| *now > last).await.is_err() {
                    return;
                }
                taken = shared.journal.notifications_after(Some(last));
            }
        });
        if let Some(before) = self.lock_follows().insert(id, following) {
            before.abort();
        }
        result
    }

    /// Stops sending notifications of a conversation. Returns whether the client had subscribed.
    pub(super) fn unfollow(&self, conversation: &str) -> bool {
        let following = self.lock_follows().remove(conversation);
        following.inspect(JoinHandle::abort).is_some()
    }

    /// Ends subscriptions, and the runs that the client asked to end with its connection.
    fn disconnect(&self) {
        for following in std::mem::take(&mut *self.lock_follows()).into_values() {
            following.abort();
        }
        if self.attached.get().is_some_and(|attached| attached.stop_on_disconnect) {
            let drove = std::mem::take(&mut *self.drove.lock().unwrap_or_else(PoisonError::into_inner));
            for shared in drove.iter().filter_map(|id| self.server.conversation(id).ok()) {
                // Without a run there is nothing to stop.
                let _ = shared.intent(&Intent::Stop);
            }
        }
    }

    fn lock_follows(&self) -> MutexGuard<'_, BTreeMap<String, JoinHandle<()>>> {
        self.follows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_allowed(what: &str, needed: Role, has: Role) -> RpcError {
    let why = format!("{what} needs the role {}, and this client is a {}", needed.as_str(), has.as_str());
    RpcError::new(Refusal::NotAllowed, why).with(json!({ "role": needed }))
}

fn shorten(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect()
}
