use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::TaskTracker;
use zk_core::events::{AgentBeforeStart, BeforeStart};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::service::{Command, Exec};

#[cfg(feature = "http")]
use crate::auth::{SignInError, SignInOptions, SignInPage};
use crate::config::ServerConfig;
use crate::era::{EraStore, MemoryEras};
use crate::events::{McpConnect, McpError, McpQuarantine};
use crate::forms::AskPerson;
use crate::pin::{MemoryPins, PinStore};
use crate::search::catalogue;
use crate::server::{Server, ServerLog, Shared, StartCheck, quarantined};
use crate::skills::RemoteSkill;
use crate::status::{ServerState, ServerStatus};
use crate::status_command::StatusCommand;

/// How many programs are started at once.
const STARTS: usize = 4;

/// How long the end of all programs is waited for.
const GONE: Duration = Duration::from_secs(3);

/// The tools of MCP servers as tools of the agent.
///
/// Servers start in the background when the plugin is installed, all beside each other. A run waits a little for those
/// that are being started ([`McpPlugin::waiting`]); what comes later joins at the next turn.
///
/// ```no_run
/// use serde_json::json;
/// use zk_core::kernel::Bus;
/// use zk_mcp::{McpPlugin, ServerConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let docs = ServerConfig::read("docs", &json!({ "command": "docs-server" }))?;
/// let bus = Bus::new();
/// bus.install(&McpPlugin::new([docs], "/home/me/project"))?;
/// # Ok(())
/// # }
/// ```
#[must_use = "servers do nothing until the plugin is installed"]
pub struct McpPlugin {
    servers: Vec<ServerConfig>,
    project: PathBuf,
    roots: Option<Vec<PathBuf>>,
    exec: Option<Arc<dyn Exec>>,
    pins: Arc<dyn PinStore>,
    eras: Arc<dyn EraStore>,
    check: Option<StartCheck>,
    log: Option<ServerLog>,
    #[cfg(feature = "http")]
    credentials: Arc<dyn zk_auth::CredentialStore>,
    wait: Duration,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for McpPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpPlugin").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}

impl McpPlugin {
    /// Servers for the project in `project`, their variables expanded. Those that are not enabled are left out.
    pub fn new(servers: impl IntoIterator<Item = ServerConfig>, project: impl Into<PathBuf>) -> Self {
        Self {
            servers: servers.into_iter().filter(|server| server.enabled).collect(),
            project: project.into(),
            roots: None,
            exec: None,
            pins: Arc::new(MemoryPins::default()),
            eras: Arc::new(MemoryEras::default()),
            check: None,
            log: None,
            #[cfg(feature = "http")]
            credentials: Arc::new(zk_auth::MemoryStore::default()),
            wait: Duration::ZERO,
            tell: Arc::new(|_| ()),
        }
    }

    /// The directories that servers which ask for roots are told of, in the place of the project.
    pub fn roots(mut self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        self.roots = Some(roots.into_iter().collect());
        self
    }

    /// Starts programs with `exec`, such as one outside of the sandbox that the bus has for the model's commands.
    pub fn exec(mut self, exec: Arc<dyn Exec>) -> Self {
        self.exec = Some(exec);
        self
    }

    /// Keeps the accepted lists of tools in `pins`; without it they are forgotten with the process.
    pub fn pins(mut self, pins: Arc<dyn PinStore>) -> Self {
        self.pins = pins;
        self
    }

    /// Keeps the eras of servers in `eras`; without it they are probed again by each process.
    pub fn eras(mut self, eras: Arc<dyn EraStore>) -> Self {
        self.eras = eras;
        self
    }

    /// Has `check` look at a server before each start, the first and later ones: an error in words keeps it from starting.
    /// It may block.
    pub fn checking(
        mut self,
        check: impl Fn(&ServerConfig) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Keeps the tokens of sign-ins in `store`; without it they are forgotten with the process.
    #[cfg(feature = "http")]
    pub fn credentials(mut self, store: Arc<dyn zk_auth::CredentialStore>) -> Self {
        self.credentials = store;
        self
    }

    /// Hands what programs print to standard error to `log`, with the name of the server, as it comes.
    pub fn logging(mut self, log: impl Fn(&str, &[u8]) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// How long a run waits for servers that are being started; it does not wait unless set.
    pub fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Hands what a person should know to `tell`: at the start of a run which servers cannot be used, and later which
    /// ones joined. It is text of any origin.
    pub fn telling(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }
}

/// The servers of a plugin: `cx.service::<McpServers>()`.
#[derive(Clone)]
pub struct McpServers {
    servers: Arc<Vec<Arc<Server>>>,
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServers").field("servers", &self.servers.len()).finish()
    }
}

impl McpServers {
    /// How each server is now, in the order of the settings. Nothing is asked of them.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        self.servers.iter().map(|server| server.status()).collect()
    }

    /// Waits until no server is being started any more, at most `limit`. Servers that failed are tried again.
    pub async fn warm_up(&self, limit: Duration) {
        self.servers.iter().for_each(|server| server.retry());
        let until = Instant::now() + limit;
        let settled = self.servers.iter().map(|server| async move {
            let mut live = server.live();
            let _ = live.wait_for(|live| live.state != ServerState::Starting).await;
        });
        let _ = timeout_at(until, join_all(settled)).await;
    }

    /// Accepts the tools of a server that are not those accepted before: exactly those of the digest that
    /// [`McpQuarantine`] names.
    ///
    /// # Errors
    /// In words, when there is no such server, no such change, or it cannot be stored.
    pub async fn accept(&self, server: &str, digest: &str) -> Result<(), String> {
        self.named(server)?.accept(digest).await
    }

    /// Has a person sign in to a server that wants it, on `page`. The tokens are stored, and the server is tried again.
    ///
    /// # Errors
    /// [`SignInError`], after which nothing that was stored is another thing.
    #[cfg(feature = "http")]
    pub async fn sign_in(
        &self,
        server: &str,
        page: &dyn SignInPage,
        options: &SignInOptions,
    ) -> Result<(), SignInError> {
        self.named(server).map_err(SignInError::NotWanted)?.sign_in(page, options).await
    }

    /// Forgets the sign-in to a server, and says whether there was one.
    ///
    /// # Errors
    /// [`SignInError`] when what is stored cannot be changed.
    #[cfg(feature = "http")]
    pub async fn sign_out(&self, server: &str) -> Result<bool, SignInError> {
        self.named(server).map_err(SignInError::NotWanted)?.sign_out().await
    }

    /// Whether a server wants a sign-in: it said so since it was started, or a call of an earlier program needed more than
    /// the tokens are good for.
    #[cfg(feature = "http")]
    pub async fn wants_sign_in(&self, server: &str) -> bool {
        match self.named(server) {
            Ok(server) => server.wants_sign_in().await,
            Err(_) => false,
        }
    }

    /// The skills of all servers, as they were listed last.
    #[must_use]
    pub fn skills(&self) -> Vec<RemoteSkill> {
        self.servers.iter().flat_map(|server| server.remote_skills()).collect()
    }

    /// A file of a skill, by the server and the addresses of both. It has the size and the digest that the list names;
    /// what its frontmatter says is for the caller to compare.
    ///
    /// # Errors
    /// In words, when it is not listed, cannot be read, or is another file.
    pub async fn read_skill(
        &self,
        server: &str,
        skill: &str,
        file: &str,
        cx: &Cx,
    ) -> Result<Vec<u8>, String> {
        self.named(server)?.read_skill(skill, file, cx.stop_token()).await
    }

    fn named(&self, name: &str) -> Result<&Arc<Server>, String> {
        let found = self.servers.iter().find(|one| one.name() == name);
        found.ok_or_else(|| format!("there is no MCP server {name}"))
    }

    async fn close(&self) {
        join_all(self.servers.iter().map(|server| server.close())).await;
    }
}

/// What a person was not told yet.
#[derive(Default)]
struct News {
    /// Whether a run began: what joins from then on is late.
    is_running: bool,
    waiting: Vec<String>,
}

impl Plugin for McpPlugin {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let exec = self.exec.clone().or_else(|| scope.bus()?.service::<dyn Exec>());
        let shared = Arc::new(Shared {
            project: self.project.clone(),
            roots: self.roots.clone().unwrap_or_else(|| vec![self.project.clone()]).into(),
            exec,
            #[cfg(feature = "http")]
            http: zk_auth::Http::new(),
            #[cfg(feature = "http")]
            credentials: self.credentials.clone(),
            pins: self.pins.clone(),
            eras: self.eras.clone(),
            check: self.check.clone(),
            log: self.log.clone(),
            answers: Some(Arc::new(AskPerson(scope.clone()))),
            taken: Mutex::new(BTreeSet::new()),
            starts: Semaphore::new(STARTS),
            pumps: TaskTracker::new(),
            all: OnceLock::new(),
            has_resources: OnceLock::new(),
            has_search: OnceLock::new(),
        });
        let make = |config: &ServerConfig| Server::new(config.clone(), shared.clone(), scope.clone());
        let servers: Vec<Arc<Server>> = self.servers.iter().map(make).collect();
        // Before the tasks, so that it runs after they are gone: one that was starting a program has let go of it.
        let pumps = shared.pumps.clone();
        scope.on_close(async move || {
            pumps.close();
            let _ = timeout(GONE, pumps.wait()).await;
        });
        shared.all.get_or_init(|| Arc::new(servers.iter().map(Arc::downgrade).collect()));
        for server in &servers {
            scope.spawn(server.clone().run());
        }
        let servers = McpServers { servers: Arc::new(servers) };
        scope.provide_service(Arc::new(servers.clone()));
        // Somebody else has that name: theirs stays.
        let _ = scope.provide::<dyn Command>("mcp", Arc::new(StatusCommand(servers.clone())));
        self.listen(scope, &servers);
        // After the tasks: what ends the servers runs before those are dropped.
        scope.on_close(async move || servers.close().await);
        Ok(())
    }
}

impl McpPlugin {
    fn listen(&self, scope: &Scope, servers: &McpServers) {
        let news: Arc<Mutex<News>> = Arc::default();
        let tell = self.tell.clone();
        let say = move |news: &Mutex<News>, text: String, at_once: bool| {
            let mut news = news.lock().unwrap_or_else(PoisonError::into_inner);
            if news.is_running {
                drop(news);
                tell(&text);
            } else if !at_once {
                news.waiting.push(text);
            }
        };
        let say = Arc::new(say);
        let (told, speak) = (news.clone(), say.clone());
        scope.on_sync(move |event: &McpError, _: &Cx| {
            let retry = if event.retry_in_ms.is_some() { "; it is started again" } else { "" };
            speak(&told, format!("warning: {}{retry}", event.error), false);
        });
        let (told, speak) = (news.clone(), say.clone());
        scope.on_sync(move |event: &McpQuarantine, _: &Cx| {
            let McpQuarantine { server, changes, digest } = event;
            speak(&told, format!("warning: {}", quarantined(server, changes, digest)), false);
        });
        let (told, speak) = (news.clone(), say);
        scope.on_sync(move |event: &McpConnect, _: &Cx| {
            let McpConnect { server, tools, .. } = event;
            speak(&told, format!("MCP server {server} is ready with {} tools", tools.len()), true);
        });
        let (tell, wait, servers) = (self.tell.clone(), self.wait, servers.clone());
        scope.on_async_with(
            (news, tell, wait, servers),
            async |state: &Begin, event: &AgentBeforeStart, cx: &Cx| {
                let (news, tell, wait, servers) = state;
                servers.warm_up(*wait).await;
                let waiting = {
                    let mut news = news.lock().unwrap_or_else(PoisonError::into_inner);
                    news.is_running = true;
                    std::mem::take(&mut news.waiting)
                };
                waiting.iter().for_each(|text| tell(text));
                let system = catalogue(cx.bus()).map(|names| format!("{}\n\n{names}", event.system));
                Ok::<_, BoxError>(
                    system.map(|system| BeforeStart { system: Some(system), ..BeforeStart::default() }),
                )
            },
        );
    }
}

type Begin = (Arc<Mutex<News>>, Arc<dyn Fn(&str) + Send + Sync>, Duration, McpServers);
