use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};

use zk_agent::{AgentDefinition, RateLimits};
use zk_auth::Secret;
use zk_core::service::Redactor;
use zk_exec::{LocalHostFiles, SshTunnel};
use zk_permission::FileTrust;
use zk_tui::plain::Notices;

use crate::dirs::Dirs;
use crate::env::Env;
use crate::exit::{Failure, Outcome};
use crate::launch::Launch;
use crate::settings::Settings;

/// Context that every job starts from: the place of its work and the settings.
#[derive(Clone)]
pub(crate) struct AppContext {
    pub(crate) env: Env,
    pub(crate) dirs: Dirs,
    pub(crate) settings: Settings,
    /// The directory worked in, canonical.
    pub(crate) cwd: PathBuf,
    /// Directories to work in beside it, canonical.
    pub(crate) add_dirs: Vec<PathBuf>,
    /// The root of the project it belongs to.
    pub(crate) project: PathBuf,
    pub(crate) verbose: bool,
    pub(crate) notices: Notices,
    /// Store of what was approved of projects.
    pub(crate) trust: Arc<FileTrust>,
    /// Rate limits that the providers of this process share.
    pub(crate) limits: RateLimits,
    /// The tunnel to the host where commands run, once it was needed.
    pub(crate) tunnel: Arc<OnceLock<SshTunnel>>,
    /// Reads what zk itself relies on.
    pub(crate) host_files: LocalHostFiles,
    /// Keeps keys out of everything that is written.
    pub(crate) redactor: Arc<Redactor>,
    /// The address and the key that the command line has for whichever provider is chosen.
    pub(crate) base_url: Option<String>,
    pub(crate) api_key: Option<Secret>,
    /// Settings of the command line; nothing where none are read.
    pub(crate) launch: Option<Arc<Launch>>,
    /// The sub-agents of the command line.
    pub(crate) agents: Arc<[AgentDefinition]>,
}

impl AppContext {
    /// The directories to work in, the first one first.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        std::iter::once(&self.cwd).chain(&self.add_dirs).cloned().collect()
    }

    /// The demo's app: its own directory, and nobody's settings.
    pub(crate) fn for_demo(&self, dir: &Path) -> Self {
        Self {
            env: self.env.clone(),
            dirs: self.dirs.clone(),
            settings: Settings::for_demo(),
            cwd: dir.to_path_buf(),
            add_dirs: Vec::new(),
            project: dir.to_path_buf(),
            verbose: false,
            notices: self.notices.clone(),
            trust: self.trust.clone(),
            limits: self.limits.clone(),
            tunnel: Arc::default(),
            host_files: self.host_files.clone(),
            redactor: self.redactor.clone(),
            launch: None,
            agents: Arc::default(),
            base_url: None,
            api_key: None,
        }
    }
}

/// A runtime for one job.
pub(crate) struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// Runs `future` to its end. The runtime is compiled for each type of future: by what they give, these are few.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let future: Pin<&mut dyn Future<Output = T>> = pin!(future);
        self.0.block_on(future)
    }
}

/// A runtime for one job, made only when a job needs one.
pub(crate) fn runtime() -> Outcome<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map(Runtime)
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))
}
