use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use zk_core::service::{Exec, ExecError, ExecRequest, Input, Process, ProcessEvent, make_private_dir};

use super::broker::ReportReader;
use super::caches;
use super::connector;
use super::denial::Denials;
use super::placeholders::Placeholders;
use super::places;
use super::plan::{FRESH, Plan, RUNTIME};
use super::policy::{Network, SandboxPolicy};
use super::printed::Printed;
use super::process::{SandboxProcess, SetAsides};
use super::proxy::{self, Granted, Proxy};
use super::report::{SandboxError, SandboxReport, SelfTest};
use super::repositories::Repositories;
use super::self_test::planted::{self, Planted};
use super::self_test::probe::{self, Tried};
use super::self_test::remedy;
use crate::reads::git;
use crate::{BoundedExec, Environment, Limits, ProcessExec, Supervision};

/// Runs commands of this machine in a sandbox: the `dyn Exec` of the context `sandbox`.
///
/// For each policy, one process enters user, mount, process, IPC and network namespaces. It starts all
/// commands, which Landlock and seccomp restrict further and which have no superuser rights. The guarantees
/// of [`ProcessExec`] hold as well.
///
/// | | inside the sandbox | |---|---| | workspace, `/tmp`, `/var/tmp`, `/dev/shm` | writable; the last three
/// are private, in memory, and removed with the sandbox | | `.git/{config,hooks,info,commondir}`, `.zk` |
/// read-only, even if they do not exist | | start files of shells and of git in a writable directory |
/// read-only, even if they do not exist; in its subdirectories only existing ones | | credentials, zk's own
/// files, `/run`, sockets of services | hidden | | everything else | read-only | | processes outside |
/// invisible | | network | none, loopback, named hosts through a proxy, or all: [`Network`](crate::Network);
/// and the hosts that a request names |
///
/// On a machine that refuses namespaces, [`SandboxPolicy::landlock_only`] guarantees less, and says so in its
/// report.
///
/// Not prevented: changes to files that a person runs later, such as a Makefile, and the loss of writable
/// files.
#[derive(Debug)]
pub struct SandboxExec {
    // Dropped first, since this ends all commands.
    exec: ProcessExec,
    limits: Vec<String>,
    denials: Arc<Denials>,
    /// Denial rules for commands that connect through the proxy.
    connected_denials: Arc<Denials>,
    supervision: Supervision,
    environment: Environment,
    plan: Vec<u8>,
    network: Network,
    proxy: Option<Proxy>,
    /// `None` if no names are guarded, or created names cannot be observed.
    repositories: Option<Repositories>,
    /// A protected name in the workspace, for the self-test.
    protected: PathBuf,
    state: Option<PathBuf>,
    home: Option<PathBuf>,
    /// Workspace or repository that contains the state directory, if any.
    around_state: Option<PathBuf>,
    landlock_only: bool,
    loss_report: Option<LossReport>,
    /// Temporary directory of commands without a private `/tmp`; removed on drop.
    #[expect(dead_code, reason = "it lives as long as the commands")]
    temporary: Option<Temporary>,
}

/// Callback for a sandbox that cannot be set up any more; its argument is the reason.
struct LossReport(Box<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for LossReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LossReport")
    }
}

/// Private directory of the host; removed on drop.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Temporary {
    fn make() -> Result<Self, SandboxError> {
        let base = fs::canonicalize("/tmp").unwrap_or_else(|_| "/tmp".into());
        let dir = base.join(format!("zk-{:016x}", RandomState::new().build_hasher().finish()));
        let made = DirBuilder::new().mode(0o700).create(&dir);
        made.map_err(|source| SandboxError::Path { path: dir.clone(), source })?;
        Ok(Self(dir))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Time limit of the self-test.
const SELF_TEST: Duration = Duration::from_secs(20);

impl SandboxExec {
    /// Prepares a sandbox for the policy. It is set up with the first command, or by [`SandboxExec::start`].
    ///
    /// Placeholders of killed zk processes are removed, as far as they are listed in the policy's state
    /// directory.
    ///
    /// # Errors
    /// [`SandboxError`] when the policy cannot be used.
    pub fn new(
        policy: &SandboxPolicy,
        environment: Environment,
        supervision: Supervision,
    ) -> Result<Self, SandboxError> {
        // The self-test runs this program inside, where the machine's temporary files are hidden.
        let program = Path::new(supervision.program());
        let is_covered = FRESH.iter().chain(&RUNTIME).any(|dir| program.starts_with(dir));
        let policy = if is_covered { &policy.clone().readable(program) } else { policy };
        // Removed before the policy's paths are resolved, which would take them for the project's files.
        policy.state.as_deref().into_iter().for_each(Placeholders::remove_left);
        let (mut plan, found) = Plan::of(policy)?;
        let (no_template, empty) = git::NO_TEMPLATE;
        let mut environment =
            environment.without("XDG_RUNTIME_DIR").grant("TMPDIR", "/tmp").grant(no_template, empty);
        let temporary = if policy.landlock_only {
            // `/tmp` is shared with other users.
            let dir = Temporary::make()?;
            plan.writable.push(dir.0.clone());
            plan.readable.extend(program.canonicalize());
            environment = environment.grant("TMPDIR", &dir.0);
            Some(dir)
        } else {
            None
        };
        let proxy = plan.connects.then(|| Proxy::new(policy.hosts.clone()));
        if plan.network == Network::Hosts {
            environment = proxy_variables(Ipv4Addr::LOCALHOST, false)
                .into_iter()
                .fold(environment, |all, (name, value)| all.grant(name, value));
        }
        if policy.denies_writes {
            environment = for_reads(environment);
        }
        if plan.connects {
            (plan.overlaid, environment) = caches::package_directories(policy.home.as_deref(), environment);
            // A directory inside of, or around, a writable one is unchanged.
            let touches =
                |dir: &PathBuf| plan.writable.iter().any(|own| own.starts_with(dir) || dir.starts_with(own));
            plan.overlaid.retain(|dir| !touches(dir));
        }
        let encoded = plan.encode();
        let reports = (!plan.guarded.is_empty()).then(ReportReader::default);
        let around_state = places::around_state(policy, &found.writable);
        let workspace = found.writable.first().or(found.readable.first()).cloned().unwrap_or_default();
        Ok(Self {
            exec: ProcessExec::sandboxed(
                environment.clone(),
                supervision.clone(),
                encoded.clone(),
                proxy.clone(),
                reports.clone(),
            )
            .limited(policy.limits),
            proxy,
            repositories: reports.map(|reports| Repositories::of(&plan, reports)),
            limits: found.limits,
            denials: Arc::new(plan.denials()),
            connected_denials: Arc::new(Denials { network: Network::Hosts, ..plan.denials() }),
            supervision,
            environment,
            plan: encoded,
            network: plan.network,
            protected: workspace.join(".zk"),
            state: policy.state.clone(),
            home: policy.home.clone(),
            around_state,
            landlock_only: policy.landlock_only,
            loss_report: None,
            temporary,
        })
    }

    /// Calls `report` with the reason when a command cannot start because the sandbox cannot be set up any
    /// more. The command fails with that reason as well, and never runs outside.
    #[must_use]
    pub fn with_loss_report(mut self, report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.loss_report = Some(LossReport(Box::new(report)));
        self
    }

    /// Sets the sandbox up, unless it is running, and reports its layers.
    ///
    /// # Errors
    /// [`SandboxError::Missing`] when it cannot be set up.
    pub fn start(&self) -> Result<SandboxReport, SandboxError> {
        let report = self.exec.start_sandbox();
        let mut report = report.map_err(|error| {
            let what = error.to_string();
            let remedy = remedy::of_machine(&what).map(|remedy| format!(" ({remedy})")).unwrap_or_default();
            SandboxError::Missing { what: what + &remedy }
        })?;
        report.limits.clone_from(&self.limits);
        Ok(report)
    }

    /// Hides more files and directories, given as absolute physical paths, from the next command on. Paths
    /// that do not exist when a command starts are skipped.
    ///
    /// # Errors
    /// [`SandboxError::Missing`] when the running sandbox does not answer. The next command sets up a new
    /// one, with the paths hidden.
    pub fn hide(&self, paths: &[PathBuf]) -> Result<(), SandboxError> {
        self.exec.hide(paths).map_err(|error| SandboxError::Missing {
            what: format!("the sandbox cannot be told what to hide: {error}"),
        })
    }

    /// Blocking form of [`Self::self_test`], which runs it on its own thread and works inside and outside of
    /// a runtime.
    ///
    /// # Errors
    /// As [`Self::self_test`].
    pub fn self_test_and_wait(&self) -> Result<SelfTest, SandboxError> {
        let missing = |what: String| SandboxError::Missing { what };
        std::thread::scope(|threads| {
            let test = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime =
                    runtime.map_err(|error| missing(format!("cannot test the sandbox: {error}")))?;
                runtime.block_on(self.self_test())
            };
            let ended = threads.spawn(test).join();
            ended.unwrap_or_else(|_| Err(missing("the self-test of the sandbox broke off".to_owned())))
        })
    }

    /// Proves that the sandbox holds: a command inside tries to write outside, to change protected files, to
    /// read hidden files, to reach this process and to connect. Each attempt must fail.
    ///
    /// Every attempt is also made outside at the same time, against files and sockets planted in the policy's
    /// state directory and beside it. A passed test is recorded there, and is repeated only for another
    /// policy or program, or after the machine was restarted.
    ///
    /// # Errors
    /// [`SandboxError::SelfTest`] when an attempt succeeds, [`SandboxError::Missing`] when the test cannot
    /// run, [`SandboxError::StateWithin`] when commands can write to the state directory.
    pub async fn self_test(&self) -> Result<SelfTest, SandboxError> {
        let fail = |what: &str, error: String| SandboxError::Missing { what: format!("{what}: {error}") };
        let Some(state) = &self.state else {
            return Err(fail("cannot test the sandbox", "its policy names no state directory".into()));
        };
        if let Some(writable) = &self.around_state {
            return Err(SandboxError::StateWithin { state: state.clone(), writable: writable.clone() });
        }
        let tried = Tried { network: self.network != Network::All, protected: !self.landlock_only };
        let record = planted::record(state, &self.plan, Path::new(self.supervision.program()));
        let held = record.as_ref().and_then(|record| fs::read_to_string(record).ok());
        if let Some(held) = held.filter(|held| probe::missing(held.lines(), tried).is_none()) {
            return Ok(SelfTest {
                held: held.lines().map(str::to_owned).collect(),
                unproven: Vec::new(),
                cached: true,
            });
        }
        self.start()?;
        let planted = Planted::new(state).map_err(|(path, error)| {
            fail("cannot test the sandbox", format!("cannot write in {}: {error}", path.display()))
        })?;
        let inside = probe::Canaries { protected: self.protected.clone(), ..planted.canaries.clone() };
        let open = tokio::time::timeout(SELF_TEST, self.probe(&inside.encode(tried))).await;
        let open = match open {
            Ok(Ok(Some(open))) => open,
            Ok(Ok(None)) => return Err(fail("the self-test of the sandbox", "it gave no result".into())),
            Ok(Err(error)) => return Err(fail("the self-test of the sandbox", error.to_string())),
            Err(_) => return Err(fail("the self-test of the sandbox", "it took too long".into())),
        };
        if !open.is_empty() {
            return Err(SandboxError::SelfTest { open });
        }
        let control = tokio::task::spawn_blocking(move || planted.canaries.try_all(tried)).await;
        let control = control.map_err(|error| fail("the self-test of the sandbox", error.to_string()))?;
        let (worked, failed): (Vec<_>, Vec<_>) = control.into_iter().partition(|(_, worked)| *worked);
        let names =
            |acts: Vec<(&str, bool)>| acts.into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        let (held, unproven) = (names(worked), names(failed));
        if let Some(act) = probe::missing(held.iter().map(String::as_str), tried) {
            let why = format!("\"{act}\" fails outside as well, so that its failure inside proves nothing");
            return Err(fail("the self-test of the sandbox", why));
        }
        if let Some(record) = record {
            // Without a record the next start tests again.
            let _ = record
                .parent()
                .map_or(Ok(()), make_private_dir)
                .and_then(|()| fs::write(record, held.join("\n")));
        }
        Ok(SelfTest { held, unproven, cached: false })
    }

    /// Adds the variables and the grant for the connections of a command. Returns the request unchanged if it
    /// needs none.
    fn with_connections(
        &self,
        mut request: ExecRequest,
    ) -> Result<(ExecRequest, Option<Granted>), ExecError> {
        let Some((proxy, connections)) = self.proxy.as_ref().zip(request.connections.take()) else {
            return Ok((request, None));
        };
        let granted = proxy.grant(&connections).map_err(|source| ExecError::Spawn {
            program: request.program.to_string_lossy().into_owned(),
            cwd: request.cwd.clone(),
            source,
        })?;
        let variables = proxy_variables(granted.address, granted.names_this_machine);
        for (name, value) in variables.into_iter().chain(caches::variables()) {
            request.env.insert(name.into(), value.into());
        }
        let npm = self.home.iter().flat_map(|home| caches::npm_registries(home, &request.cwd));
        for (name, value) in npm.collect::<Vec<_>>() {
            // npm ignores the case of variable names.
            let is_name = |set: &OsStr| set.eq_ignore_ascii_case(&name);
            let is_set = self.environment.vars().any(|(set, _)| is_name(set));
            if !is_set && !request.env.keys().any(|set| is_name(set)) {
                request.env.insert(name.into(), value.into());
            }
        }
        request.connections = Some(connections);
        Ok((request, Some(granted)))
    }

    /// Runs this program inside as the probe; returns the attempts that succeeded, or `None` if the probe did
    /// not finish.
    async fn probe(&self, canaries: &[u8]) -> Result<Option<Vec<String>>, ExecError> {
        let mut request = ExecRequest::new(self.supervision.program(), "/");
        request.args = self.supervision.args().to_vec();
        request.input = Input::Piped;
        let mut process = self.exec.spawn(request).await?;
        process.write(canaries).await?;
        process.close_input().await?;
        let mut printed = Vec::new();
        while let Some(event) = process.next().await? {
            if let ProcessEvent::Output(_, bytes) = event {
                printed.extend(bytes);
            }
        }
        Ok(probe::read_results(&String::from_utf8_lossy(&printed)))
    }

    /// Ends all commands and takes the sandbox down.
    ///
    /// As after each command, settings and hooks that start programs are set aside in repositories that
    /// commands have made. The next command's result reports them.
    pub async fn close(&self) {
        self.exec.close().await;
        self.check_repositories().await;
    }

    /// Checks the repositories that commands have made, and sets aside settings and hooks that start
    /// programs.
    async fn check_repositories(&self) {
        let Some(repositories) = self.repositories.clone() else { return };
        if tokio::runtime::Handle::try_current().is_err() {
            return repositories.check();
        }
        let _ = tokio::task::spawn_blocking(move || repositories.check()).await;
    }
}

/// Variables that name the proxy and the hosts to reach without it; programs differ in the variables that
/// they read.
fn proxy_variables(address: Ipv4Addr, names_this_machine: bool) -> Vec<(&'static str, String)> {
    let place = format!("{address}:{}", proxy::PORT);
    let (http, socks) = (format!("http://{place}"), format!("socks5h://{place}"));
    // Libraries without SOCKS support fail if `ALL_PROXY` is a SOCKS proxy; tools with support have separate
    // variables.
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let mut variables: Vec<_> = names.into_iter().map(|name| (name, http.clone())).collect();
    variables.extend(["SOCKS_PROXY", "socks_proxy"].map(|name| (name, socks.clone())));
    variables.extend(["SOCKS5_SERVER", "RSYNC_PROXY"].map(|name| (name, place.clone())));
    variables.push(("GIT_PROXY_COMMAND", connector::PROGRAM.to_owned()));
    // A command with a grant for this machine means the machine outside of the sandbox.
    let inside = if names_this_machine { "" } else { "localhost,127.0.0.1,::1" };
    variables.extend([("NO_PROXY", inside.to_owned()), ("no_proxy", inside.to_owned())]);
    // Node.js ignores the proxy variables otherwise.
    variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    variables
}

/// Moves caches to the temporary directory, and keeps a reading git from starting programs and refreshing the
/// index.
fn for_reads(environment: Environment) -> Environment {
    let environment = environment.grant("XDG_CACHE_HOME", "/tmp/.cache");
    git::git_read_variables().into_iter().fold(environment, |all, (name, value)| all.grant(name, value))
}

#[async_trait]
impl Exec for SandboxExec {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        self.spawn_within(request, Limits::default()).await
    }

    async fn spawn_detached(
        &self,
        request: ExecRequest,
        output: &Path,
    ) -> Result<Box<dyn Process>, ExecError> {
        // Always refused: no process may outlive the sandbox.
        self.exec.spawn_detached(request, output).await
    }
}

#[async_trait]
impl BoundedExec for SandboxExec {
    async fn spawn_within(
        &self,
        request: ExecRequest,
        limits: Limits,
    ) -> Result<Box<dyn Process>, ExecError> {
        let (request, granted) = self.with_connections(request)?;
        let cwd = request.cwd.clone();
        let (proxy, began) = (self.proxy.clone(), Instant::now());
        let printed = Printed::of(&request);
        // Background processes may have changed repositories since the last check.
        self.check_repositories().await;
        let starting = self.repositories.as_ref().map(Repositories::begin);
        let (inner, life) = match self.exec.spawn_watched(request, limits).await {
            Ok(started) => started,
            Err(error) => {
                if let Some(LossReport(report)) = &self.loss_report
                    && let Err(lost) = self.start()
                {
                    report(&lost.to_string());
                }
                return Err(error);
            }
        };
        if let Some(starting) = starting {
            starting.started(life);
        }
        let rules = if granted.is_some() { self.connected_denials.clone() } else { self.denials.clone() };
        Ok(Box::new(SandboxProcess {
            inner,
            rules,
            proxy,
            _granted: granted,
            began,
            cwd,
            printed,
            failed: false,
            check: None,
            set_aside: SetAsides::of(self.repositories.clone()),
        }))
    }
}
