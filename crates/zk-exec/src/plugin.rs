use std::sync::Arc;

use zk_core::kernel::{BoxError, Plugin, Scope};
use zk_core::service::{Exec, Files, HostFiles, ReadExec};

use crate::reads::GitReads;
use crate::{
    BoundedExec, Environment, LocalHostFiles, ProcessExec, SandboxExec, Supervision, WorkspaceFiles,
};

/// Provides `dyn Exec`, `dyn Files` and `dyn HostFiles` of this machine, and ends background processes of
/// commands when its scope closes. With a sandbox it also provides [`ReadExec`]: the same executor, in which
/// git starts no program of the repository that it reads.
///
/// ```
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// use zk_core::kernel::Bus;
/// use zk_core::service::{Exec, Files};
/// use zk_exec::{Environment, LocalPlugin, WorkspaceFiles};
///
/// let paths = WorkspaceFiles::new([std::env::temp_dir()]).unwrap();
/// let bus = Bus::new();
/// bus.install(&LocalPlugin::new(Environment::filtered([("PATH", "/usr/bin:/bin")]), paths)).unwrap();
/// assert!(bus.service::<dyn Exec>().is_some() && bus.service::<dyn Files>().is_some());
/// bus.close().await;
/// # });
/// ```
#[derive(Debug)]
pub struct LocalPlugin {
    environment: Environment,
    exec: LocalExec,
    paths: Arc<WorkspaceFiles>,
    host_files: Arc<LocalHostFiles>,
}

/// Executor of local commands, kept so that a shutdown can kill background processes.
#[derive(Clone, Debug)]
pub enum LocalExec {
    /// Commands without a sandbox.
    Process(Arc<ProcessExec>),
    /// Commands in a sandbox.
    Sandbox(Arc<SandboxExec>),
}

impl LocalExec {
    /// Returns the executor as a service.
    #[must_use]
    pub fn exec(&self) -> Arc<dyn Exec> {
        self.bounded()
    }

    /// Returns the executor for an exec-server, whose clients may tighten the limits.
    #[must_use]
    pub fn bounded(&self) -> Arc<dyn BoundedExec> {
        match self {
            Self::Process(exec) => exec.clone(),
            Self::Sandbox(exec) => exec.clone(),
        }
    }

    /// Ends all background processes of commands, and waits until they have ended.
    pub async fn close(&self) {
        match self {
            Self::Process(exec) => exec.close().await,
            Self::Sandbox(exec) => exec.close().await,
        }
    }
}

impl LocalPlugin {
    /// Plugin whose commands run with `environment` and whose files are reached through `paths`.
    #[must_use]
    pub fn new(environment: Environment, paths: WorkspaceFiles) -> Self {
        Self {
            exec: LocalExec::Process(Arc::new(ProcessExec::new(environment.clone()))),
            environment,
            paths: Arc::new(paths),
            host_files: Arc::new(LocalHostFiles::new()),
        }
    }

    /// Runs commands below a supervisor process.
    #[must_use]
    pub fn supervised(self, supervision: Supervision) -> Self {
        let exec = ProcessExec::supervised(self.environment.clone(), supervision);
        self.running(exec)
    }

    /// Runs commands with `exec`.
    #[must_use]
    pub fn running(mut self, exec: ProcessExec) -> Self {
        self.exec = LocalExec::Process(Arc::new(exec));
        self
    }

    /// Runs commands in a sandbox.
    #[must_use]
    pub fn sandboxed(mut self, exec: impl Into<Arc<SandboxExec>>) -> Self {
        self.exec = LocalExec::Sandbox(exec.into());
        self
    }

    /// Reads zk's own files through `files`.
    #[must_use]
    pub fn host_files(mut self, files: LocalHostFiles) -> Self {
        self.host_files = Arc::new(files);
        self
    }
}

impl Plugin for LocalPlugin {
    fn name(&self) -> &'static str {
        "local"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        scope.provide_service::<dyn Exec>(self.exec.exec());
        if let LocalExec::Sandbox(exec) = &self.exec {
            scope.provide_service(Arc::new(ReadExec(Arc::new(GitReads(exec.clone())))));
        }
        scope.provide_service::<dyn Files>(self.paths.clone());
        scope.provide_service::<dyn HostFiles>(self.host_files.clone());
        let exec = self.exec.clone();
        scope.on_close(async move || exec.close().await);
        Ok(())
    }
}
