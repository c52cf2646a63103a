use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tokio::io::{AsyncRead, AsyncWrite};
use zk_chat::{ConversationLauncher, HostedConversation, HostedOptions, LaunchRequest};
use zk_core::service::{Redactor, StateFileError, StateFiles};

use super::client::{self, Client, Door};
use super::conversation::Shared;
use super::journal::Journal;
use super::listen::access_file::RpcAccessFile;
use super::message::{RpcError, notification};
use super::token::{RpcTokens, new_id};
use super::wire::attach::{AttachedClient, Clients, OpenConversation};
use super::wire::refusal::Refusal;

/// Most conversations that are open at once.
const MAX_CONVERSATIONS: usize = 64;

/// Parts that a server of `zk rpc` is made of.
pub struct RpcOptions {
    /// Opens conversations.
    pub launcher: Arc<dyn ConversationLauncher>,
    /// Redactor for everything that clients read.
    pub redactor: Arc<Redactor>,
    /// Tokens of the roles.
    pub tokens: RpcTokens,
    /// Working directory of conversations that name none.
    pub cwd: PathBuf,
    /// Version of the program.
    pub version: String,
}

impl fmt::Debug for RpcOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RpcOptions").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// Server of `zk rpc`: conversations, and the clients that share them.
#[derive(Debug)]
pub struct RpcServer {
    pub(super) options: RpcOptions,
    conversations: Mutex<BTreeMap<String, Arc<Shared>>>,
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_client: AtomicU64,
}

impl RpcServer {
    /// Creates a server without conversations and clients.
    #[must_use]
    pub fn new(options: RpcOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            conversations: Mutex::default(),
            clients: Mutex::default(),
            last_client: AtomicU64::new(0),
        })
    }

    /// Serves the program that started this one, until the stream ends. It may take any role without a token,
    /// since it controls this process anyway.
    pub async fn serve_parent(
        self: &Arc<Self>,
        from: impl AsyncRead + Send + Unpin,
        to: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        client::serve(self, from, to, Door::Parent).await;
    }

    /// Writes the private file that tells programs of this user how to connect, into a directory that tools and commands
    /// cannot read.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn tell_access(
        &self,
        files: &dyn StateFiles,
        dir: &Path,
        socket: Option<&Path>,
        websocket: Option<&str>,
    ) -> Result<RpcAccessFile, StateFileError> {
        RpcAccessFile::write(files, dir, &self.options.tokens, socket, websocket)
    }

    /// Closes all conversations after storing everything.
    pub async fn close(&self) {
        let all: Vec<String> = self.conversations().keys().cloned().collect();
        join_all(all.iter().map(|id| self.close_conversation(id))).await;
    }

    /// Closes one conversation after storing everything.
    pub(super) async fn close_conversation(&self, id: &str) {
        let found = self.conversations().remove(id);
        if let Some(shared) = found {
            shared.close().await;
        }
    }

    pub(super) fn conversation(&self, id: &str) -> Result<Arc<Shared>, RpcError> {
        self.conversations().get(id).cloned().ok_or_else(|| {
            let why =
                format!("there is no conversation {id} here: `conversations` lists those that are open");
            RpcError::new(Refusal::UnknownConversation, why)
        })
    }

    pub(super) fn all_conversations(&self) -> Vec<Arc<Shared>> {
        self.conversations().values().cloned().collect()
    }

    pub(super) fn rows(&self) -> Vec<OpenConversation> {
        let open = self.all_conversations().into_iter().filter(|shared| shared.is_open());
        open.map(|shared| shared.row()).collect()
    }

    /// Returns the conversation in which a stored session is open.
    pub(super) fn conversation_of(&self, session: &str) -> Option<Arc<Shared>> {
        self.all_conversations().into_iter().find(|shared| shared.session().as_deref() == Some(session))
    }

    /// Opens a conversation. `on_opening` gets its id before the opening asks any question.
    pub(super) async fn open(
        self: &Arc<Self>,
        request: &LaunchRequest,
        options: HostedOptions,
        on_opening: impl FnOnce(&str) + Send,
    ) -> Result<Arc<Shared>, RpcError> {
        if self.conversations().len() >= MAX_CONVERSATIONS {
            let why = format!("{MAX_CONVERSATIONS} conversations are open: close one first");
            return Err(RpcError::failed(why));
        }
        let id = new_id("c").map_err(RpcError::failed)?;
        let launcher = self.options.launcher.clone();
        let launch = request.clone();
        let factory = tokio::task::spawn_blocking(move || launcher.launch(&launch))
            .await
            .map_err(RpcError::failed)?
            .map_err(RpcError::failed)?;
        let cwd = factory.setup().cwd.clone();
        let mut opening = None;
        let opened = HostedConversation::open_showing(factory, options, |view| {
            let journal = Journal::new(id.clone(), self.options.redactor.clone());
            let shared = Shared::new(id.clone(), cwd, journal, view);
            self.conversations().insert(id.clone(), shared.clone());
            opening = Some(shared);
            on_opening(&id);
        });
        let hosted = match opened.await {
            Ok(hosted) => hosted,
            Err(error) => {
                self.close_conversation(&id).await;
                return Err(RpcError::failed(error));
            }
        };
        let gone = || RpcError::failed("the conversation was closed while it opened");
        let shared = opening.filter(|_| self.conversations().contains_key(&id));
        let Some(shared) = shared else {
            hosted.close().await;
            return Err(gone());
        };
        shared.set_opened(hosted, self);
        Ok(shared)
    }

    pub(super) fn add_client(&self, client: &Arc<Client>) -> u64 {
        let number = self.last_client.fetch_add(1, Ordering::Relaxed) + 1;
        self.clients().insert(number, client.clone());
        number
    }

    pub(super) fn remove_client(&self, number: u64) {
        if self.clients().remove(&number).is_some_and(|client| client.attached().is_some()) {
            self.send_client_list();
        }
    }

    pub(super) fn attached(&self) -> Vec<AttachedClient> {
        self.clients().values().filter_map(|client| client.row()).collect()
    }

    /// Sends the list of attached clients to each of them.
    pub(super) fn send_client_list(&self) {
        let clients = Clients { clients: self.attached() };
        let line = notification("clients/changed", &clients);
        for client in self.clients().values().filter(|client| client.attached().is_some()) {
            client.send(&line);
        }
    }

    fn conversations(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Shared>>> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
