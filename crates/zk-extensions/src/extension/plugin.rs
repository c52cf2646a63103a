use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_core::events::SessionStart;
use zk_core::kernel::{BoxError, Cx, HookOptions, Plugin, Scope, Stage};
use zk_core::service::Exec;

use super::handle::ExtensionHandle;
use super::life::{HostProgram, Life, StartCheck};
use super::registry::Registry;
use super::shared::Shared;
use crate::abilities::guard_start;
use crate::config::ExtensionConfig;
use crate::link::LogSink;

/// Longest wait for the program's end when the plugin is closed.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Time that a run waits for an extension beyond its start limit, so that the failure is reported first.
const START_MARGIN: Duration = Duration::from_secs(5);

/// Plugin that runs one extension: a program that registers tools, commands, gates and more over JSON-RPC.
///
/// ```
/// use zk_extensions::{Extension, ExtensionConfig};
///
/// let notes = Extension::new(ExtensionConfig::new("notes", ["python3", "notes.py"]), "/srv/project");
/// let agent_plugin: &dyn zk_core::kernel::Plugin = &notes;
/// assert_eq!(agent_plugin.name(), "extension:notes");
/// ```
#[must_use = "an extension does nothing until it is installed"]
pub struct Extension {
    name: String,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    exec: Option<Arc<dyn Exec>>,
    log: Option<LogSink>,
    check: Option<StartCheck>,
    host: HostProgram,
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extension").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Extension {
    /// Extension that works in `project`. Its program is started with the `Exec` of the bus. It is installed once.
    pub fn new(config: ExtensionConfig, project: impl Into<PathBuf>) -> Self {
        Self {
            name: config.source(),
            shared: Shared::new(config, project.into()),
            registry: Arc::default(),
            exec: None,
            log: None,
            check: None,
            host: HostProgram { name: "zk".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        }
    }

    /// Sets the working directory of the conversation at its start; the project's root unless it is set.
    pub fn cwd(self, cwd: impl Into<PathBuf>) -> Self {
        self.shared.set_cwd(cwd.into());
        self
    }

    /// Sets the receiver of notices about the extension, for the person. They quote untrusted text.
    pub fn on_notice(self, notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.shared.set_notice(Arc::new(notice));
        self
    }

    /// Starts the program with `exec`, whatever the bus has.
    pub fn exec(mut self, exec: Arc<dyn Exec>) -> Self {
        self.exec = Some(exec);
        self
    }

    /// Sets the handler of lines on standard error.
    pub fn on_log(mut self, log: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// Sets a check before each start, such as one of the approval.
    pub fn check_starts(
        mut self,
        check: impl Fn(&ExtensionConfig) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Sets the name and version of the host program, for extensions.
    pub fn host(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.host = HostProgram { name: name.into(), version: version.into() };
        self
    }

    /// Reserves names that backends of the extension must not use, such as those of known providers.
    pub fn reserve_backend_names(self, names: impl IntoIterator<Item = String>) -> Self {
        self.shared.reserve_names(names.into_iter().collect());
        self
    }

    /// Returns a handle for the program that installs the extension.
    #[must_use]
    pub fn handle(&self) -> ExtensionHandle {
        ExtensionHandle { shared: self.shared.clone(), registry: self.registry.clone() }
    }
}

impl Plugin for Extension {
    fn name(&self) -> &str {
        &self.name
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let (shared, registry) = (self.shared.clone(), self.registry.clone());
        let start_guard = match (shared.config.guards, scope.bus()) {
            (true, Some(bus)) => {
                let guard = bus.scope(shared.config.source());
                guard_start(&guard, &shared);
                Some(guard)
            }
            (_, _) => None,
        };
        let (closing, closed) = (CancellationToken::new(), CancellationToken::new());
        let life = Life {
            shared: shared.clone(),
            registry: self.registry.clone(),
            scope: scope.clone(),
            exec: self.exec.clone(),
            log: self.log.clone(),
            check: self.check.clone(),
            host: self.host.clone(),
            start_guard: start_guard.clone(),
            closing: closing.clone(),
            closed: closed.clone(),
        };
        scope.spawn(life.run());
        // The first prompt waits for the registrations. A failure is reported elsewhere.
        let limit = shared.config.limits.start + START_MARGIN;
        let at = HookOptions { stage: Stage::Early, reach: None, time_limit: Some(limit) };
        scope.on_async_with_at(at, shared, async |shared: &Arc<Shared>, _: &SessionStart, _: &Cx| {
            let _ = shared.ready().await;
        });
        scope.on_close(async move || {
            closing.cancel();
            let _ = tokio::time::timeout(CLOSE_WAIT, closed.cancelled()).await;
            registry.clear().await;
            if let Some(guard) = start_guard {
                guard.close().await;
            }
        });
        Ok(())
    }
}
