mod ends;
mod group;
mod launch;
mod local;
#[cfg(feature = "pty")]
mod person_terminal;
mod process_table;
mod signals;
mod spawn;
mod spawner;
mod started;
mod supervision;
#[cfg_attr(not(feature = "pty"), path = "no_terminal.rs")]
mod terminal;
mod watchdog;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::runtime::Handle;
use zk_core::service::{EnvPolicy, Exec, ExecError, ExecRequest, Process};

use crate::{BoundedExec, Environment, Limits};
use ends::Ends;
use launch::Launch;
use local::LocalProcess;
#[cfg(feature = "pty")]
pub use person_terminal::{PersonCommand, PersonTerminal, copy_terminal_size};
pub use spawn::replace_process;
use spawner::Spawner;
use started::{Started, Tree, Waiter};
use supervision::supervised;
#[cfg(feature = "sandbox")]
pub(crate) use supervision::supervisor::{Side, fork, leave};
pub use supervision::supervisor::{Supervision, run_supervisor};

/// Time between `TERM` and `KILL`; the tree is gone within two seconds.
const GRACE: Duration = Duration::from_millis(1_750);

/// Runs commands on this machine.
///
/// A command inherits nothing of this process but the [`Environment`]: it has its own process group, an empty
/// standard input and no other descriptors. A [supervised](ProcessExec::supervised) command also has no
/// terminal, and all its descendants are found below its supervisor; otherwise they are found by the process
/// group or by the variable `ZK_EXEC` in their environment.
///
/// | when | what happens |
/// |---|---|
/// | the command exits | its output is read to the end, or for at most 1.5 s if a background process holds it open |
/// | the command times out | `TERM` to all its processes, `KILL` 1.75 s later, then the outcome |
/// | the run is cancelled | the same signals, but the outcome comes at once: `survivors` lists the processes that are still ending |
/// | the future is dropped | the same signals, in the background |
/// | background processes remain | they run until [`ProcessExec::close`], the last drop, or this process's death |
/// | this process dies, however | the supervisor kills everything; without a supervisor the kernel kills the command, and a watchdog shell kills the processes with its mark |
///
/// ```
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// use tokio_util::sync::CancellationToken;
/// use zk_core::service::{Exec, ExecRequest, Exit, OutputStream};
/// use zk_exec::{Environment, ProcessExec};
///
/// let exec = ProcessExec::new(Environment::filtered([("PATH", "/usr/bin:/bin")]));
/// let mut out = Vec::new();
/// let mut sink = |_: OutputStream, bytes: &[u8]| out.extend_from_slice(bytes);
/// let outcome = exec.run(ExecRequest::shell("echo hello", "/"), &mut sink, &CancellationToken::new()).await;
/// assert_eq!(outcome.unwrap().exit, Exit::Code(0));
/// assert_eq!(out, b"hello\n");
/// # });
/// ```
#[derive(Debug)]
pub struct ProcessExec {
    environment: Environment,
    /// Environment for [`EnvPolicy::Inherit`].
    inherited: Option<Environment>,
    /// Mark in the environment of this instance's children, unique to the instance.
    mark: String,
    serial: AtomicU64,
    limits: Limits,
    starter: Starter,
}

/// Process that forks the commands.
#[derive(Debug)]
enum Starter {
    /// The supervisor, which keeps all descendants below itself.
    Supervisor(supervised::Supervisor),
    /// The process of zk itself.
    Own(Spawner),
}

impl ProcessExec {
    /// Runs commands with `environment`, as children of this process. A process that leaves its process group
    /// and clears its environment escapes, so a program should have its commands supervised.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        let mark = fresh_mark();
        Self {
            environment,
            inherited: None,
            serial: AtomicU64::new(0),
            limits: Limits::default(),
            starter: Starter::Own(Spawner::new(mark.clone())),
            mark,
        }
    }

    /// Runs commands with `environment` below one supervisor process, from which no descendant escapes.
    #[must_use]
    pub fn supervised(environment: Environment, supervision: Supervision) -> Self {
        let starter = Starter::Supervisor(supervised::Supervisor::new(supervision));
        Self {
            environment,
            inherited: None,
            serial: AtomicU64::new(0),
            limits: Limits::default(),
            starter,
            mark: fresh_mark(),
        }
    }

    /// Runs commands with `environment` in the sandbox of a plan.
    #[cfg(feature = "sandbox")]
    pub(crate) fn sandboxed(
        environment: Environment,
        supervision: Supervision,
        plan: Vec<u8>,
        proxy: Option<crate::sandbox::Proxy>,
        reports: Option<crate::sandbox::ReportReader>,
    ) -> Self {
        let supervisor = supervised::Supervisor::sandboxed(supervision, plan, proxy, reports);
        let starter = Starter::Supervisor(supervisor);
        Self {
            environment,
            inherited: None,
            serial: AtomicU64::new(0),
            limits: Limits::default(),
            starter,
            mark: fresh_mark(),
        }
    }

    /// Starts the sandbox unless it runs, and reports its layers.
    #[cfg(feature = "sandbox")]
    pub(crate) fn start_sandbox(&self) -> io::Result<crate::sandbox::SandboxReport> {
        match &self.starter {
            Starter::Supervisor(supervisor) => supervisor.start_sandbox(),
            Starter::Own(_) => Ok(crate::sandbox::SandboxReport::default()),
        }
    }

    /// Hides more paths, from the next command in the sandbox on.
    #[cfg(feature = "sandbox")]
    pub(crate) fn hide(&self, paths: &[std::path::PathBuf]) -> io::Result<()> {
        match &self.starter {
            Starter::Supervisor(supervisor) => supervisor.hide(paths),
            Starter::Own(_) => Ok(()),
        }
    }

    /// Sets the environment for commands that ask for all variables ([`EnvPolicy::Inherit`]): the person's
    /// own shell.
    #[must_use]
    pub fn inheriting(mut self, environment: Environment) -> Self {
        self.inherited = Some(environment);
        self
    }

    /// Sets the limits of each command.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Ends all background processes: `TERM`, and `KILL` after 1.75 s. Dropping the last handle kills at once
    /// instead, and so does a call outside of a runtime, which cannot wait.
    pub async fn close(&self) {
        let spawner = match &self.starter {
            Starter::Supervisor(supervisor) => return supervisor.close().await,
            Starter::Own(spawner) => spawner,
        };
        let Some(group) = spawner.everything() else { return };
        // A bus that is dropped after the end of its runtime cannot wait.
        if Handle::try_current().is_err() {
            return group.signal_now(group::Ask::Kill);
        }
        group.signal(group::Ask::End).await;
        let until = Instant::now() + GRACE;
        let mut pause = Duration::from_millis(4);
        while !group.members().await.is_empty() {
            if Instant::now() >= until {
                group.signal(group::Ask::Kill).await;
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}

#[async_trait]
impl Exec for ProcessExec {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        self.spawn_within(request, Limits::default()).await
    }

    async fn spawn_detached(
        &self,
        request: ExecRequest,
        output: &Path,
    ) -> Result<Box<dyn Process>, ExecError> {
        let program = request.program.to_string_lossy().into_owned();
        let (started, ends) = self.start_detached(&request, output).map_err(|source| ExecError::Spawn {
            program: program.clone(),
            cwd: request.cwd.clone(),
            source: explain(source, &request),
        })?;
        Ok(Box::new(LocalProcess::new(program, started, ends, self.limits)))
    }
}

#[async_trait]
impl BoundedExec for ProcessExec {
    async fn spawn_within(
        &self,
        request: ExecRequest,
        limits: Limits,
    ) -> Result<Box<dyn Process>, ExecError> {
        let (started, ends, limits) = self.start_within(&request, limits).await?;
        Ok(Box::new(LocalProcess::new(request.program.to_string_lossy().into_owned(), started, ends, limits)))
    }
}

impl ProcessExec {
    /// Variant of [`BoundedExec::spawn_within`] that also returns a connection, which closes when all
    /// processes of the command have ended.
    #[cfg(feature = "sandbox")]
    pub(crate) async fn spawn_watched(
        &self,
        request: ExecRequest,
        limits: Limits,
    ) -> Result<(Box<dyn Process>, Option<std::os::fd::OwnedFd>), ExecError> {
        let (started, ends, limits) = self.start_within(&request, limits).await?;
        let life = started.tree.life();
        let program = request.program.to_string_lossy().into_owned();
        Ok((Box::new(LocalProcess::new(program, started, ends, limits)), life))
    }

    async fn start_within(
        &self,
        request: &ExecRequest,
        limits: Limits,
    ) -> Result<(Started, Ends, Limits), ExecError> {
        let limits = self.limits.within(limits);
        let program = request.program.to_string_lossy().into_owned();
        let mark = format!("{}.{}", self.mark, self.serial.fetch_add(1, Ordering::Relaxed));
        let (started, ends) = self.start(request, mark, limits).await.map_err(|source| ExecError::Spawn {
            program,
            cwd: request.cwd.clone(),
            source: explain(source, request),
        })?;
        Ok((started, ends, limits))
    }

    async fn start(
        &self,
        request: &ExecRequest,
        mark: String,
        limits: Limits,
    ) -> io::Result<(Started, Ends)> {
        let mut launch = Launch::new(request, self.vars(request.environment)?, &mark);
        let (ends, of_command) = ends::open(request)?;
        let started = match &self.starter {
            Starter::Supervisor(supervisor) => supervisor.spawn(&mut launch, limits, of_command).await?,
            Starter::Own(spawner) => {
                launch.limits = limits;
                let command = spawn::command(&launch, of_command);
                spawner.spawn(command.into(), mark).await?
            }
        };
        Ok((started, ends))
    }

    fn start_detached(&self, request: &ExecRequest, output: &Path) -> io::Result<(Started, Ends)> {
        if self.is_sandboxed() {
            let why = "commands end with the sandbox; run it in the background without detaching it";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        if let Some(limit) = self.limits.watched_limit() {
            let why = format!(
                "nothing would hold it to its limit on {limit} once this program has ended; run it in the background \
                 without detaching it"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        // Not this instance's mark, since the command outlives the instance.
        let mark = format!("detached-{}", fresh_mark());
        let mut launch = Launch::new(request, self.vars(request.environment)?, &mark);
        launch.limits = self.limits;
        let (ends, of_command) = ends::open_file(output)?;
        let child = tokio::process::Command::from(spawn::detached(&launch, of_command)).spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("it has no process id"))?;
        let tree = Tree::Detached(group::Group::new(pid, &mark));
        Ok((Started { waiter: Waiter::Child(child), tree }, ends))
    }

    #[cfg(feature = "sandbox")]
    fn is_sandboxed(&self) -> bool {
        match &self.starter {
            Starter::Supervisor(supervisor) => supervisor.is_sandboxed(),
            Starter::Own(_) => false,
        }
    }

    #[cfg(not(feature = "sandbox"))]
    fn is_sandboxed(&self) -> bool {
        false
    }

    fn vars(&self, policy: EnvPolicy) -> io::Result<&Environment> {
        match policy {
            EnvPolicy::Cleared => Ok(&self.environment),
            EnvPolicy::Inherit => self.inherited.as_ref().ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::Unsupported,
                    "there is no environment here that it could inherit",
                )
            }),
        }
    }
}

fn fresh_mark() -> String {
    format!("{:x}-{:016x}", std::process::id(), RandomState::new().build_hasher().finish())
}

/// Distinguishes a missing program from a missing directory, for which the system has one error code.
fn explain(source: io::Error, request: &ExecRequest) -> io::Error {
    let kind = source.kind();
    match (kind, request.cwd.is_dir()) {
        (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, false) => {
            io::Error::new(kind, "that directory does not exist")
        }
        (io::ErrorKind::NotFound, true) => io::Error::new(kind, "it is not installed or not in PATH"),
        _ => source,
    }
}
