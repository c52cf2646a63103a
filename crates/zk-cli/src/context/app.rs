use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use zk_agent::{AgentDefinition, RateLimits};
use zk_core::service::Redactor;
use zk_exec::{LocalHostFiles, SshTunnel};
use zk_permission::FileTrust;
use zk_providers::select::GivenValues;
use zk_tui::plain::Notices;

use crate::dirs::Dirs;
use crate::env::Env;
use crate::exit::Outcome;
use crate::launch::Launch;
use crate::settings::Settings;
use zk_chat::{ProviderLayer, Runtime};

/// Directories to work in, on the machine that zk runs on.
#[derive(Clone)]
pub(crate) struct Workplace {
    pub(crate) machine: Machine,
    /// The directory worked in, canonical.
    pub(crate) cwd: PathBuf,
    /// Directories to work in beside it, canonical.
    pub(crate) add_dirs: Vec<PathBuf>,
    /// The root of the project it belongs to.
    pub(crate) project: PathBuf,
}

impl Workplace {
    /// The directories to work in, the first one first.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        std::iter::once(&self.cwd).chain(&self.add_dirs).cloned().collect()
    }
}

/// The machine and the person that zk runs for.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) env: Env,
    pub(crate) dirs: Dirs,
    /// Reads what zk itself relies on.
    pub(crate) host_files: LocalHostFiles,
    pub(crate) notices: Notices,
    /// Keeps keys out of everything that is written.
    pub(crate) redactor: Arc<Redactor>,
    /// Store of what was approved of projects.
    pub(crate) trust: Arc<FileTrust>,
}

/// Connections that all conversations of this process share.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    /// Rate limits of the providers.
    pub(crate) limits: RateLimits,
    /// The tunnel to the host where commands run, once it was needed.
    pub(crate) tunnel: Arc<OnceLock<SshTunnel>>,
    /// Decorator of each provider.
    pub(crate) provider_layer: Option<Layer>,
    /// Traces, metrics and the log.
    #[cfg(feature = "otel")]
    pub(crate) observed: crate::compose::telemetry::Observed,
}

/// Decorator of providers that another program asks for.
#[derive(Clone)]
pub(crate) struct Layer(pub(crate) ProviderLayer);

/// Everything that was read before a job starts. A function takes the parts it needs; one that needs most of them takes
/// the whole.
#[derive(Clone)]
pub(crate) struct AppContext {
    pub(crate) work: Workplace,
    pub(crate) settings: Settings,
    /// The address and the key that the command line has for whichever provider is chosen.
    pub(crate) given: GivenValues,
    pub(crate) shared: Shared,
    /// Settings of the command line; nothing where none are read.
    pub(crate) launch: Option<Arc<Launch>>,
    /// The sub-agents of the command line.
    pub(crate) agents: Arc<[AgentDefinition]>,
}

impl AppContext {
    /// The demo's context: its own directory, and nobody's settings.
    pub(crate) fn for_demo(&self, dir: &Path) -> Self {
        Self {
            work: Workplace {
                machine: self.work.machine.clone(),
                cwd: dir.to_path_buf(),
                add_dirs: Vec::new(),
                project: dir.to_path_buf(),
            },
            settings: Settings::for_demo(),
            given: GivenValues::default(),
            shared: Shared { tunnel: Arc::default(), ..self.shared.clone() },
            launch: None,
            agents: Arc::default(),
        }
    }
}

/// A runtime for one job, made only when a job needs one.
pub(crate) fn runtime() -> Outcome<Runtime> {
    Ok(Runtime::new()?)
}
