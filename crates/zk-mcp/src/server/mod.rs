//! One server while its plugin is installed: started, listed, watched and restarted.

mod disclosure;
pub(crate) mod forms;
mod listing;
pub(crate) mod model_sampling;
mod request;
mod run;
pub(crate) mod servers;
mod sign_in;
pub(crate) mod status;
pub(crate) mod status_command;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use rmcp::model::Skill;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use zk_core::kernel::{Event, Scope};
use zk_core::service::{Exec, Redactor};

use crate::client::{Answers, Connection};
use crate::config::server_config::ServerConfig;
use crate::server::status::{FailureStage, ServerFailure, ServerState, ServerStatus};
use crate::store::eras::EraStore;
use crate::store::pins::PinStore;
use crate::transport::stdio::Said;
pub(crate) use disclosure::{Disclosures, EAGER_TOKENS};
use listing::Listed;
pub(crate) use request::RequestError;

/// Length limit of quoted program output in a message, in characters.
const MAX_QUOTED_CHARS: usize = 300;

/// Receiver of the standard error of servers' programs, with the server's name.
pub(crate) type ServerLog = Arc<dyn Fn(&str, &[u8]) + Send + Sync>;

/// Check of a server before each start.
pub(crate) type StartCheck = Arc<dyn Fn(&ServerConfig) -> Result<(), String> + Send + Sync>;

/// State shared by all servers of a plugin.
pub(crate) struct Shared {
    pub(crate) project: PathBuf,
    /// Directories reported to servers.
    pub(crate) roots: Arc<[PathBuf]>,
    pub(crate) programs: Programs,
    #[cfg(feature = "http")]
    pub(crate) http: HttpClients,
    pub(crate) pins: Arc<dyn PinStore>,
    pub(crate) eras: Arc<dyn EraStore>,
    pub(crate) check: Option<StartCheck>,
    pub(crate) log: Option<ServerLog>,
    pub(crate) answers: Option<Arc<dyn Answers>>,
    /// Canonical names of tools already in use.
    pub(crate) taken: Mutex<BTreeSet<String>>,
    /// Lock that serialises the first steps of starting servers.
    pub(crate) turns: tokio::sync::Mutex<()>,
    /// All servers of the plugin.
    pub(crate) all: OnceLock<WeakServers>,
    /// Set once the tools for resources are registered.
    pub(crate) has_resources: OnceLock<()>,
    /// Budget and decisions for the disclosure of tools.
    pub(crate) disclosures: Disclosures,
    /// Lock that serialises the registration of tools.
    pub(crate) registering: tokio::sync::Mutex<()>,
    /// Whether lazy tools are found by the tool `tool_search`.
    pub(crate) has_search: bool,
    /// Set once the tool `tool_search` is registered.
    pub(crate) is_search_offered: OnceLock<()>,
}

/// Starts programs of servers and waits for their end.
pub(crate) struct Programs {
    pub(crate) exec: Option<Arc<dyn Exec>>,
    /// Executor for programs of sandboxed servers.
    pub(crate) sandbox: Option<Arc<dyn Exec>>,
    /// Limit of programs that are started concurrently, since too many would delay everything else.
    pub(crate) starts: Semaphore,
    /// Tasks that own programs, so that a host can await their end.
    pub(crate) pumps: TaskTracker,
}

/// HTTP clients and token store of servers.
#[cfg(feature = "http")]
pub(crate) struct HttpClients {
    pub(crate) http: zk_auth::Http,
    /// Lock that serialises the creation of HTTP clients.
    pub(crate) making: tokio::sync::Mutex<()>,
    /// Store of sign-in tokens.
    pub(crate) credentials: Arc<dyn zk_auth::CredentialStore>,
}

/// A server with its state.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    pub(crate) shared: Arc<Shared>,
    pub(crate) scope: Scope,
    live: watch::Sender<Live>,
    listed: Mutex<Listed>,
    /// Number of list changes that the prompt commands reflect, and the commands' scope.
    offered: Mutex<(u64, Option<Scope>)>,
    /// Whether the prompts of the current connection are registered.
    has_offered: watch::Sender<bool>,
    /// Whether the server's skills were listed.
    has_listed_skills: watch::Sender<bool>,
    /// Start of the current attempt, until its end is announced.
    begun: Mutex<Option<Instant>>,
    /// Skills of the last listing.
    skills: Mutex<Vec<Skill>>,
    /// Number of list changes that the current listing reflects; locked during an update.
    applied: tokio::sync::Mutex<u64>,
    /// Signal for another attempt.
    retry: Notify,
    said: Said,
    /// Sign-in state, if the server may require a sign-in.
    #[cfg(feature = "http")]
    pub(crate) auth: Option<Arc<crate::auth::ServerAuth>>,
    /// Number of sign-ins since the last successful call.
    #[cfg(feature = "http")]
    sign_ins: std::sync::atomic::AtomicU32,
    this: Weak<dyn ServerRef>,
}

/// Reference to a server for its own parts. Types that contain each other directly would make the compiler
/// prove again for each future that all of them are `Send`, which doubles the compile time of this crate.
pub(crate) trait ServerRef: Send + Sync {
    fn server(self: Arc<Self>) -> Arc<Server>;
}

impl ServerRef for Server {
    fn server(self: Arc<Self>) -> Arc<Server> {
        self
    }
}

/// Servers of a plugin. Weak, because the servers own the tools.
pub(crate) type WeakServers = Arc<Vec<Weak<dyn ServerRef>>>;

/// Returns the servers that still exist.
pub(crate) fn upgrade_all(servers: &[Weak<dyn ServerRef>]) -> impl Iterator<Item = Arc<Server>> {
    servers.iter().filter_map(Weak::upgrade).map(ServerRef::server)
}

/// State and connection of a server.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) state: ServerState,
    pub(crate) connection: Option<Arc<Connection>>,
    /// Number of failures so far.
    failures: u64,
}

impl Server {
    /// Returns a weak reference for the server's parts.
    pub(crate) fn downgrade(&self) -> Weak<dyn ServerRef> {
        self.this.clone()
    }

    pub(crate) fn new(config: ServerConfig, shared: Arc<Shared>, scope: Scope) -> Arc<Self> {
        let (live, _) = watch::channel(Live { state: ServerState::Starting, connection: None, failures: 0 });
        #[cfg(feature = "http")]
        let auth = sign_in::of(&config, &shared, &scope);
        Arc::new_cyclic(|this| Self {
            #[cfg(feature = "http")]
            auth,
            #[cfg(feature = "http")]
            sign_ins: std::sync::atomic::AtomicU32::new(0),
            config,
            shared,
            scope,
            live,
            listed: Mutex::default(),
            offered: Mutex::default(),
            has_offered: watch::channel(false).0,
            has_listed_skills: watch::channel(false).0,
            begun: Mutex::default(),
            skills: Mutex::default(),
            applied: tokio::sync::Mutex::default(),
            retry: Notify::new(),
            said: Said::default(),
            this: Weak::<Self>::clone(this),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    pub(crate) fn status(&self) -> ServerStatus {
        ServerStatus {
            server: self.config.name.clone(),
            transport: self.config.transport.as_str(),
            state: self.live.borrow().state.clone(),
            tools: self.lock_listed().names(),
        }
    }

    pub(crate) fn live(&self) -> watch::Receiver<Live> {
        self.live.subscribe()
    }

    /// Retries a failed server; ignores others.
    pub(crate) fn retry(&self) {
        // Set at once, so that later callers wait for this attempt.
        let is_failed = self.live.send_if_modified(|live| {
            let is_failed = matches!(live.state, ServerState::Failed { .. });
            if is_failed {
                live.state = ServerState::Starting;
            }
            is_failed
        });
        if is_failed {
            self.retry.notify_one();
        }
    }

    /// Returns the connection; waits for it for at most `patience`.
    pub(crate) async fn connection(&self, patience: Duration) -> Result<Arc<Connection>, String> {
        let mut live = self.live();
        // An earlier failure does not count, because the server is retried.
        let failures = live.borrow().failures;
        self.retry();
        let settled = live.wait_for(|live| match live.state {
            ServerState::Ready { .. } => {
                live.connection.as_ref().is_some_and(|one| !one.ended.is_cancelled())
            }
            ServerState::Quarantined { .. } | ServerState::Closed => true,
            ServerState::Failed { .. } => live.failures > failures,
            ServerState::Starting => false,
        });
        let settled = tokio::time::timeout(patience, settled).await;
        let now = match settled {
            Ok(Ok(now)) => now.clone(),
            Ok(Err(_)) | Err(_) => self.live.borrow().clone(),
        };
        let name = self.name();
        match (now.state, now.connection) {
            (ServerState::Ready { .. }, Some(connection)) => Ok(connection),
            (ServerState::Quarantined { changes, digest }, _) => Err(quarantined(name, &changes, &digest)),
            (ServerState::Failed { error }, _) => Err(error),
            (ServerState::Closed, _) => Err(format!("MCP server {name} was ended with the conversation")),
            (ServerState::Starting | ServerState::Ready { .. }, _) => {
                Err(format!("MCP server {name} was not ready within {} s", patience.as_secs_f64()))
            }
        }
    }

    fn lock_listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn skills(&self) -> MutexGuard<'_, Vec<Skill>> {
        self.skills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, state: ServerState, connection: Option<Arc<Connection>>) {
        self.live.send_modify(|live| (live.state, live.connection) = (state, connection));
    }

    fn set_failed(&self, state: ServerState) {
        self.live.send_modify(|live| {
            (live.state, live.connection) = (state, None);
            live.failures += 1;
        });
    }

    fn failure(&self, stage: FailureStage, elapsed: Duration, why: &str) -> ServerFailure {
        let redact = |text: &str| {
            let redactor = self.scope.bus().and_then(|bus| bus.service::<Redactor>());
            redactor.map_or_else(|| text.to_owned(), |redactor| redactor.redact(text).into_owned())
        };
        let said = redact(&self.said.tail(MAX_QUOTED_CHARS));
        ServerFailure { server: self.config.name.clone(), stage, elapsed, why: redact(why), said }
    }

    pub(crate) async fn emit<E: Event>(&self, event: E) {
        // The bus reports failing handlers.
        if let Some(bus) = self.scope.bus() {
            let _ = bus.cx().emit(event).await;
        }
    }

    /// Ends the server. Its tools stay registered until the scope closes.
    pub(crate) async fn close(&self) {
        let connection = self.live.borrow().connection.clone();
        self.set_state(ServerState::Closed, None);
        // The task that would announce the end is dropped.
        self.announce_end(Some("it was ended with the conversation".to_owned())).await;
        if let Some(connection) = connection {
            connection.close().await;
        }
    }
}

/// Explains to a model and a person why the tools of a server cannot be called.
pub(crate) fn quarantined(server: &str, changes: &[String], digest: &str) -> String {
    let until = if digest.is_empty() {
        "it lists them".to_owned()
    } else {
        format!("a person accepts this change with `zk mcp accept {server} {digest}`")
    };
    format!(
        "the tools of MCP server {server} are not those that were accepted, so none of them runs until {until}:\n{}",
        changes.join("\n")
    )
}
