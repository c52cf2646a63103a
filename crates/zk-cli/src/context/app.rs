use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use zk_agent::{AgentDefinition, RateLimits};
use zk_core::service::Redactor;
use zk_engine::ChosenEngine;
use zk_exec::{LocalHostFiles, SshTunnel};
use zk_permission::FileTrust;
use zk_providers::select::GivenValues;
use zk_stores::ChosenStore;
use zk_tui::TerminalEnv;
use zk_tui::plain::Notices;

use crate::args::{Launch, StartScope};
use crate::exit::Outcome;
use crate::settings::Settings;
use zk_chat::{ProviderLayer, Runtime};
use zk_exec::ProgramEnv;
use zk_settings::ZkDirs;

/// Working directories on the machine that runs zk.
#[derive(Clone)]
pub(crate) struct Workplace {
    pub(crate) machine: Machine,
    /// Working directory, canonical.
    pub(crate) cwd: PathBuf,
    /// Additional working directories, canonical.
    pub(crate) add_dirs: Vec<PathBuf>,
    /// Root of the project of the working directory.
    pub(crate) project: PathBuf,
    /// Sources of settings and files that this start uses.
    pub(crate) scope: StartScope,
}

impl Workplace {
    /// Returns all working directories, the main one first.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        std::iter::once(&self.cwd).chain(&self.add_dirs).cloned().collect()
    }
}

/// The machine that runs zk, and the services of its user.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) env: ProgramEnv,
    pub(crate) dirs: ZkDirs,
    /// Reader of zk's own files, such as settings and instructions.
    pub(crate) host_files: LocalHostFiles,
    pub(crate) notices: Notices,
    /// Redactor for everything that is written.
    pub(crate) redactor: Arc<Redactor>,
    /// Store of approvals for projects.
    pub(crate) trust: Arc<FileTrust>,
    /// Store of the sessions.
    pub(crate) stores: ChosenStore,
    /// Engine of the runs.
    pub(crate) engine: ChosenEngine,
}

impl Machine {
    /// Returns the variables about the terminal.
    pub(crate) fn terminal(&self) -> TerminalEnv {
        terminal(&self.env)
    }
}

/// Returns the variables about the terminal.
pub(crate) fn terminal(env: &ProgramEnv) -> TerminalEnv {
    TerminalEnv::new(|name| env.get(name).map(ToOwned::to_owned))
}

/// Services that all conversations of this process share.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    /// Rate limits of the providers.
    pub(crate) limits: RateLimits,
    /// Tunnel to the remote host of commands, opened at its first use.
    pub(crate) tunnel: Arc<OnceLock<SshTunnel>>,
    /// Decorator that wraps each provider.
    pub(crate) provider_layer: Option<Layer>,
    /// Traces, metrics and the log.
    #[cfg(feature = "otel")]
    pub(crate) observed: crate::compose::telemetry::Observed,
}

/// Decorator of providers, set by a program that drives zk.
#[derive(Clone)]
pub(crate) struct Layer(pub(crate) ProviderLayer);

/// Everything that is read before a job starts. Functions take the parts that they need, or all of it if they
/// need most.
#[derive(Clone)]
pub(crate) struct AppContext {
    pub(crate) work: Workplace,
    pub(crate) settings: Settings,
    /// Address and key on the command line, for the selected provider, whichever it is.
    pub(crate) given: GivenValues,
    pub(crate) shared: Shared,
    /// Settings of the command line; `None` if no settings are read.
    pub(crate) launch: Option<Arc<Launch>>,
    /// The sub-agents of the command line.
    pub(crate) agents: Arc<[AgentDefinition]>,
}

impl AppContext {
    /// Returns the context of the demo: its own directory, and no settings of the person.
    pub(crate) fn for_demo(&self, dir: &Path) -> Self {
        Self {
            work: Workplace {
                machine: self.work.machine.clone(),
                cwd: dir.to_path_buf(),
                add_dirs: Vec::new(),
                project: dir.to_path_buf(),
                scope: StartScope::default(),
            },
            settings: Settings::for_demo(),
            given: GivenValues::default(),
            shared: Shared { tunnel: Arc::default(), ..self.shared.clone() },
            launch: None,
            agents: Arc::default(),
        }
    }
}

/// Creates the runtime of a job.
pub(crate) fn runtime() -> Outcome<Runtime> {
    Ok(Runtime::new()?)
}
