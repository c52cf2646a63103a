use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use zk_core::events::{AgentWarmUp, SessionStart};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope, Stage};
use zk_core::service::{Command, Exec, PresetParts, PromptSection};

use crate::config::server_config::{ServerConfig, ServerDisclosure};
use crate::events::{McpConnect, McpError, McpQuarantine};
#[cfg(feature = "http")]
use crate::server::HttpClients;
use crate::server::forms::AskPerson;
use crate::server::servers::McpServers;
use crate::server::status_command::StatusCommand;
use crate::server::{
    Disclosures, EAGER_TOKENS, Programs, Server, ServerLog, Shared, StartCheck, quarantined,
};
use crate::store::eras::{EraStore, MemoryEras};
use crate::store::pins::{MemoryPins, PinStore};
use crate::tools::catalogue::{self, Catalogue};

/// Maximum number of programs that are started concurrently.
const MAX_STARTS_AT_ONCE: usize = 4;

/// Time limit for all programs to end.
const PROGRAMS_END_LIMIT: Duration = Duration::from_secs(3);

/// Longest wait for servers when a host warms up its agent; handlers of events are limited to 30 s.
const WARM_UP_LIMIT: Duration = Duration::from_secs(25);

/// Plugin that makes the tools of MCP servers tools of the agent.
///
/// Servers start concurrently in the background when the plugin is installed. A run waits a short time for
/// servers that are starting ([`McpPlugin::wait_for_servers`]); the tools of later servers join at the next
/// turn.
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
    sandbox: Option<Arc<dyn Exec>>,
    pins: Arc<dyn PinStore>,
    eras: Arc<dyn EraStore>,
    check: Option<StartCheck>,
    log: Option<ServerLog>,
    #[cfg(feature = "http")]
    credentials: Arc<dyn zk_auth::CredentialStore>,
    disclosure: Option<ServerDisclosure>,
    eager_tokens: u32,
    has_search: bool,
    wait: Duration,
    tells_at_once: bool,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for McpPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpPlugin").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}

impl McpPlugin {
    /// Creates a plugin for servers of the project at `project`, with their variables expanded. Disabled
    /// servers are left out.
    pub fn new(servers: impl IntoIterator<Item = ServerConfig>, project: impl Into<PathBuf>) -> Self {
        Self {
            servers: servers.into_iter().filter(|server| server.enabled).collect(),
            project: project.into(),
            roots: None,
            exec: None,
            sandbox: None,
            pins: Arc::new(MemoryPins::default()),
            eras: Arc::new(MemoryEras::default()),
            check: None,
            log: None,
            #[cfg(feature = "http")]
            credentials: Arc::new(zk_auth::MemoryStore::default()),
            disclosure: None,
            eager_tokens: EAGER_TOKENS,
            has_search: true,
            wait: Duration::ZERO,
            tells_at_once: false,
            tell: Arc::new(|_| ()),
        }
    }

    /// Sets the directories to report to servers that ask for roots; by default the project.
    pub fn roots(mut self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        self.roots = Some(roots.into_iter().collect());
        self
    }

    /// Sets the executor of programs, such as one outside of the sandbox for the model's commands.
    pub fn exec(mut self, exec: Arc<dyn Exec>) -> Self {
        self.exec = Some(exec);
        self
    }

    /// Sets the executor for programs of sandboxed servers, which are not started otherwise.
    pub fn sandbox(mut self, exec: Arc<dyn Exec>) -> Self {
        self.sandbox = Some(exec);
        self
    }

    /// Sets the store of accepted tool lists; by default they are kept in memory only.
    pub fn pins(mut self, pins: Arc<dyn PinStore>) -> Self {
        self.pins = pins;
        self
    }

    /// Sets the store of the servers' protocol eras; by default each process probes again.
    pub fn eras(mut self, eras: Arc<dyn EraStore>) -> Self {
        self.eras = eras;
        self
    }

    /// Sets a check of a server before each start, the first and later ones: an error message prevents the
    /// start. May block.
    pub fn check_starts(
        mut self,
        check: impl Fn(&ServerConfig) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Sets the store of sign-in tokens; by default they are kept in memory only.
    #[cfg(feature = "http")]
    pub fn credentials(mut self, store: Arc<dyn zk_auth::CredentialStore>) -> Self {
        self.credentials = store;
        self
    }

    /// Sets the receiver of the programs' standard error, called with the server's name as output arrives.
    pub fn on_log(mut self, log: impl Fn(&str, &[u8]) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// Sets when the model learns of the tools of servers with default settings. By default with every
    /// request, as long as all of them together fit into [`McpPlugin::eager_tokens`].
    pub fn disclosure(mut self, disclosure: ServerDisclosure) -> Self {
        self.disclosure = Some(disclosure);
        self
    }

    /// Sets the approximate number of tokens that the tools of all servers may use in every request; 10000 by
    /// default. Above that the model has to search for tools.
    pub fn eager_tokens(mut self, tokens: u32) -> Self {
        self.eager_tokens = tokens;
        self
    }

    /// Lists lazy tools in the prompt without the tool `tool_search`, for a host that unlocks tools itself
    /// with [`RunTools::unlock`](zk_core::service::RunTools::unlock).
    pub fn without_search(mut self) -> Self {
        self.has_search = false;
        self
    }

    /// Sets the longest wait of a run for servers that are starting; no wait by default.
    pub fn wait_for_servers(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Tells a person of a server that fails when it fails, and not with the first run.
    pub fn telling_at_once(mut self, tells_at_once: bool) -> Self {
        self.tells_at_once = tells_at_once;
        self
    }

    /// Sets the receiver of notices for the person: at the start of a run the servers that cannot be used,
    /// and later the servers that joined. The text may be of any origin.
    pub fn on_notice(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }
}

impl McpPlugin {
    /// Returns the servers of the plugin, and those that presets of the agent declare, which replace others of
    /// the same name.
    fn with_servers_of_presets(&self, scope: &Scope) -> Result<Vec<ServerConfig>, BoxError> {
        let declared = scope.bus().and_then(|bus| bus.service::<PresetParts>());
        let declared = declared.map(|parts| parts.take_servers()).unwrap_or_default();
        let mut servers = self.servers.clone();
        for server in declared {
            servers.retain(|known| known.name != server.name);
            servers.push(ServerConfig::read(&server.name, &server.definition)?);
        }
        servers.retain(|server| server.enabled);
        Ok(servers)
    }
}

/// Notices that the person has not seen yet.
#[derive(Default)]
struct News {
    /// Whether a run has begun, after which servers count as late.
    is_running: bool,
    /// Last notice of each server.
    waiting: BTreeMap<String, String>,
    /// Servers whose failure was reported before a run.
    told: BTreeSet<String>,
    /// Servers whose restart was already reported.
    failing: BTreeSet<String>,
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
            programs: Programs {
                exec,
                sandbox: self.sandbox.clone(),
                starts: Semaphore::new(MAX_STARTS_AT_ONCE),
                pumps: TaskTracker::new(),
            },
            #[cfg(feature = "http")]
            http: HttpClients {
                http: zk_auth::Http::new(),
                making: tokio::sync::Mutex::default(),
                credentials: self.credentials.clone(),
            },
            pins: self.pins.clone(),
            eras: self.eras.clone(),
            check: self.check.clone(),
            log: self.log.clone(),
            answers: Some(Arc::new(AskPerson(scope.clone()))),
            taken: Mutex::new(BTreeSet::new()),
            turns: tokio::sync::Mutex::default(),
            all: OnceLock::new(),
            has_resources: OnceLock::new(),
            disclosures: Disclosures::new(self.disclosure, self.eager_tokens),
            registering: tokio::sync::Mutex::default(),
            has_search: self.has_search,
            is_search_offered: OnceLock::new(),
        });
        let make = |config: &ServerConfig| Server::new(config.clone(), shared.clone(), scope.clone());
        let servers: Vec<Arc<Server>> = self.with_servers_of_presets(scope)?.iter().map(make).collect();
        // Registered before the tasks, so that it runs after their end: a task that was starting a program
        // has released it by then.
        let pumps = shared.programs.pumps.clone();
        scope.on_close(async move || {
            pumps.close();
            let _ = timeout(PROGRAMS_END_LIMIT, pumps.wait()).await;
        });
        shared.all.get_or_init(|| Arc::new(servers.iter().map(|server| server.downgrade()).collect()));
        for server in &servers {
            scope.spawn(server.clone().run());
        }
        let servers = McpServers { servers: Arc::new(servers), wait: self.wait };
        scope.provide_service(Arc::new(servers.clone()));
        // Another plugin has a command of that name, which stays.
        let _ = scope.provide::<dyn Command>("mcp", Arc::new(StatusCommand(servers.clone())));
        let _ = scope.provide::<dyn PromptSection>(catalogue::ID, Arc::new(Catalogue));
        self.listen(scope, &servers, &shared);
        // Registered after the tasks, so that it ends the servers before the tasks are dropped.
        scope.on_close(async move || servers.close().await);
        Ok(())
    }
}

impl McpPlugin {
    fn listen(&self, scope: &Scope, servers: &McpServers, shared: &Arc<Shared>) {
        let news: Arc<Mutex<News>> = Arc::default();
        let tell = self.tell.clone();
        let say = move |news: &mut News, server: &str, text: String| {
            if news.is_running {
                tell(&text);
            } else {
                news.waiting.insert(server.to_owned(), text);
            }
        };
        let say = Arc::new(say);
        let (told, speak) = (news.clone(), say.clone());
        let (tell_failure, tells_at_once) = (self.tell.clone(), self.tells_at_once);
        scope.on_sync(move |event: &McpError, _: &Cx| {
            let mut news = told.lock().unwrap_or_else(PoisonError::into_inner);
            let is_retried = event.retry_in_ms.is_some();
            // Reported only once until the server works or is given up.
            let is_known = is_retried && !news.failing.insert(event.server.clone());
            if !is_known {
                let retry = if is_retried { ". zk starts it again by itself" } else { "" };
                let text = format!("warning: {}{retry}", event.error.trim_end_matches('.'));
                if tells_at_once && !news.is_running {
                    news.told.insert(event.server.clone());
                    return tell_failure(&text);
                }
                speak(&mut news, &event.server, text);
            }
        });
        let (told, speak) = (news.clone(), say);
        scope.on_sync(move |event: &McpQuarantine, _: &Cx| {
            let McpQuarantine { server, changes, digest } = event;
            let mut news = told.lock().unwrap_or_else(PoisonError::into_inner);
            speak(&mut news, server, format!("warning: {}", quarantined(server, changes, digest)));
        });
        let (told, tell) = (news.clone(), self.tell.clone());
        scope.on_sync(move |event: &McpConnect, _: &Cx| {
            let McpConnect { server, tools, .. } = event;
            let mut news = told.lock().unwrap_or_else(PoisonError::into_inner);
            news.failing.remove(server);
            let was_told = news.told.remove(server);
            if news.is_running || was_told {
                tell(&format!("MCP server {server} is ready with {} tools", tools.len()));
            } else {
                // The earlier failure of a server that works now need not be reported.
                news.waiting.remove(server);
            }
        });
        // A host that warms up the agent waits for the servers longer than a run would.
        scope.on_async_with(servers.clone(), async |servers: &McpServers, _: &AgentWarmUp, _: &Cx| {
            servers.skills_ready(WARM_UP_LIMIT).await;
        });
        // Runs before the system prompt is built, which includes the servers' sections, and before handlers
        // that may use the servers' skills.
        scope.on_async_with_at(
            Stage::Early,
            (news, self.tell.clone(), servers.clone(), shared.clone()),
            async |(news, tell, servers, shared): &Begin, _: &SessionStart, _: &Cx| {
                servers.skills_ready(servers.wait).await;
                shared.disclosures.begin_run();
                let waiting = {
                    let mut news = news.lock().unwrap_or_else(PoisonError::into_inner);
                    news.is_running = true;
                    std::mem::take(&mut news.waiting)
                };
                waiting.values().for_each(|text| tell(text));
            },
        );
    }
}

type Begin = (Arc<Mutex<News>>, Arc<dyn Fn(&str) + Send + Sync>, McpServers, Arc<Shared>);
