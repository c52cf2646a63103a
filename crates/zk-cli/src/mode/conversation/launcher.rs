use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use zk_chat::{ConversationFactory, ConversationLauncher, LaunchRequest, LaunchSession};
use zk_core::kernel::BoxError;
use zk_core::model::{EntryId, SessionId};
use zk_core::service::SessionStore;
use zk_skills::Project;

use super::factory::ChatFactory;
use crate::additions::Additions;
use crate::app::{AppContext, Layer};
use crate::args::Launch;
use crate::args::Resume;
use crate::configure::canonical;
use crate::exit::{Failure, Outcome};
use crate::sessions;

/// Origin of settings in the requests of another program.
const BY_PROGRAM: &str = "the program that drives zk";

/// Name of the execution context in which commands run in the sandbox.
const SANDBOX: &str = "sandbox";

/// Opens conversations for other programs, each as if zk had been started with its directory and settings.
pub(crate) struct Launcher {
    app: AppContext,
    /// Digests of requested bundles at their first use, by directory; `None` for a directory without a
    /// bundle.
    pinned: Mutex<BTreeMap<PathBuf, Option<String>>>,
}

impl Launcher {
    pub(crate) fn new(app: AppContext) -> Self {
        Self { app, pinned: Mutex::default() }
    }

    /// Reads the settings of a request.
    pub(crate) fn app_of(&self, request: &LaunchRequest) -> Outcome<AppContext> {
        let before = self.app.launch.as_deref();
        let before = before.ok_or_else(|| Failure::usage("this zk reads no settings"))?;
        let mut given = before.given.clone();
        for (key, value) in &request.settings {
            given.json(key, BY_PROGRAM, value).map_err(Failure::usage)?;
        }
        if request.needs_sandbox {
            self.check_place()?;
            given.json("context", BY_PROGRAM, &SANDBOX.into()).map_err(Failure::usage)?;
        }
        let launch = Launch {
            given,
            config: before.config.clone(),
            scope: before.scope,
            trust_mcp: before.trust_mcp.clone(),
            mcp_configs: before.mcp_configs.clone(),
            agents: request.agents.clone().or_else(|| before.agents.clone()),
            plugin_dirs: before.plugin_dirs.iter().chain(&request.bundle_dirs).cloned().collect(),
            only_servers: request.only_its_servers.then(|| servers_of(request)),
            add_dirs: before.add_dirs.iter().chain(&request.add_dirs).cloned().collect(),
            ..Launch::default()
        };
        let machine = self.app.work.machine.clone();
        let place = match &request.cwd {
            None => (self.app.work.cwd.clone(), self.app.work.project.clone()),
            Some(dir) => {
                let cwd = canonical(dir)?;
                let Project { root, .. } = zk_skills::project(&cwd, &machine.host_files);
                (cwd, root)
            }
        };
        let Additions { providers, mut plugins, session_store, engines } =
            self.app.settings.additions.clone();
        plugins.extend(request.plugins.iter().cloned());
        let additions = Additions { providers, plugins, session_store, engines };
        let (mut app, mut warnings) =
            AppContext::read(place, machine, launch, self.app.given.clone(), additions)?;
        self.check_pinned(&app, &request.bundle_dirs)?;
        if request.needs_sandbox && app.settings.context_text() != Some(SANDBOX) {
            return Err(Failure::usage(
                "the program that drives zk wants commands in the sandbox, and the managed settings have another \
                 `context`",
            ));
        }
        if request.only_managed_hooks {
            app.settings.keep_managed_hooks();
        }
        app.shared.limits = self.app.shared.limits.clone();
        #[cfg(feature = "otel")]
        {
            app.shared.observed = self.app.shared.observed.clone();
        }
        app.shared.provider_layer = request.provider_layer.clone().map(Layer);
        warnings.extend(app.settings.untrusted_warnings(&app.work.project));
        warnings.iter().for_each(|warning| app.work.machine.notices.show(&format!("warning: {warning}")));
        Ok(app)
    }

    /// Checks that commands run on this machine, where the sandbox can contain them.
    fn check_place(&self) -> Outcome<()> {
        match self.app.settings.remote_context_text() {
            Some(context) => Err(Failure::usage(format!(
                "the program that drives zk wants commands in the sandbox of this machine (`sandbox.enabled`), and your \
                 settings run them in {context}: leave one of the two out"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses bundles that changed since their first use, since calls may have changed their files.
    fn check_pinned(&self, app: &AppContext, dirs: &[PathBuf]) -> Outcome<()> {
        let mut pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        for dir in dirs {
            let root = dir.canonicalize().ok();
            let placed =
                app.settings.bundles().bundles.iter().find(|placed| Some(&placed.root) == root.as_ref());
            let digest = placed.map(|placed| placed.bundle.digest.clone());
            if *pinned.entry(dir.clone()).or_insert_with(|| digest.clone()) != digest {
                let dir = dir.display();
                return Err(Failure::usage(format!(
                    "the plugin {dir} changed since the first conversation of this start: start anew to use it as it is now"
                )));
            }
        }
        Ok(())
    }
}

/// Returns the names of the MCP servers that a request defines.
fn servers_of(request: &LaunchRequest) -> BTreeSet<String> {
    let names = request.settings.keys().filter_map(|key| key.strip_prefix("mcp.servers."));
    names.map(str::to_owned).collect()
}

#[async_trait]
impl ConversationLauncher for Launcher {
    fn launch(&self, request: &LaunchRequest) -> Result<Arc<dyn ConversationFactory>, BoxError> {
        let resume = match &request.session {
            LaunchSession::New => None,
            LaunchSession::Named(id) => Some(Resume::Named(id.clone())),
            LaunchSession::Latest => Some(Resume::Latest),
            LaunchSession::Stored(id) => Some(Resume::Id(id.clone())),
        };
        Ok(Arc::new(ChatFactory::new(self.app_of(request)?, resume)))
    }

    fn store(&self) -> Result<Arc<dyn SessionStore>, BoxError> {
        Ok(sessions::store(&self.app.work.machine)?.into_inner())
    }

    async fn copy(&self, id: &SessionId, entry: Option<&EntryId>) -> Result<SessionId, BoxError> {
        let nothing = Box::new(|_, _| ControlFlow::Break(()));
        let cwd = self.store()?.scan(id, nothing).await?.info.cwd;
        let copied = sessions::place(&self.app.work, &self.app.settings).copy(id, cwd, entry).await?;
        copied.notices.iter().for_each(|notice| self.app.work.machine.notices.show(notice));
        Ok(copied.id)
    }
}
