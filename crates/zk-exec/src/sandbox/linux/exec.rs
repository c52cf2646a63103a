use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use zk_core::service::{Exec, ExecError, ExecRequest, Input, Process, ProcessEvent};

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

/// Runs commands on this machine, in a sandbox: the `dyn Exec` of the context `sandbox`.
///
/// One process per policy is moved to user, mount, process, IPC and network namespaces, once; commands are started from
/// it and are in addition restricted by Landlock and seccomp, without any right of a superuser. What [`ProcessExec`]
/// promises holds as well.
///
/// | | inside |
/// |---|---|
/// | workspace, `/tmp`, `/var/tmp`, `/dev/shm` | written; the last three are empty, in memory, and gone with the sandbox |
/// | `.git/{config,hooks,info,commondir}`, `.zk` | read, not written, also where they do not exist |
/// | start files of shells and of git in a writable directory | read, not written, also where they do not exist; deeper below, where they exist |
/// | credentials, zk's own files, `/run`, sockets of services | hidden |
/// | everything else | read |
/// | processes outside | not seen |
/// | network | none, loopback, named hosts through a proxy, or all: [`Network`](crate::Network); and what one request names |
///
/// On a machine that refuses namespaces, [`SandboxPolicy::landlock_only`] has less to offer, and says what.
///
/// Not prevented are changes to files that a person runs later, such as a Makefile, and the loss of what can
/// be written.
#[derive(Debug)]
pub struct SandboxExec {
    // Dropped first: it ends all commands.
    exec: ProcessExec,
    limits: Vec<String>,
    denials: Arc<Denials>,
    /// Denials of a command that connects through the proxy.
    connected_denials: Arc<Denials>,
    supervision: Supervision,
    environment: Environment,
    plan: Vec<u8>,
    network: Network,
    proxy: Option<Proxy>,
    /// Nothing where commands make no names, or nothing sees which.
    repositories: Option<Repositories>,
    /// A name in the workspace that nothing may be written to.
    protected: PathBuf,
    state: Option<PathBuf>,
    home: Option<PathBuf>,
    /// The workspace or the repository around it, if the state directory lies there.
    around_state: Option<PathBuf>,
    landlock_only: bool,
    loss_report: Option<LossReport>,
    /// Directory of the commands' temporary files if they have no `/tmp` of their own; removed with this.
    #[expect(dead_code, reason = "it lives as long as the commands")]
    temporary: Option<Temporary>,
}

/// Callback, given the reason, for when the sandbox cannot be set up any more.
struct LossReport(Box<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for LossReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LossReport")
    }
}

/// A private directory of the host, removed when dropped.
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
    /// Placeholder directories that a killed, older zk left are removed, as far as the state directory of the policy lists
    /// them.
    ///
    /// # Errors
    /// [`SandboxError`] when the policy cannot be used.
    pub fn new(
        policy: &SandboxPolicy,
        environment: Environment,
        supervision: Supervision,
    ) -> Result<Self, SandboxError> {
        // The self-test runs it inside, where the machine's temporary files are not seen.
        let program = Path::new(supervision.program());
        let is_covered = FRESH.iter().chain(&RUNTIME).any(|dir| program.starts_with(dir));
        let policy = if is_covered { &policy.clone().readable(program) } else { policy };
        // Before the files are looked at: what is left would be taken for the project's.
        policy.state.as_deref().into_iter().for_each(Placeholders::remove_left);
        let (mut plan, found) = Plan::of(policy)?;
        let (no_template, empty) = git::NO_TEMPLATE;
        let mut environment =
            environment.without("XDG_RUNTIME_DIR").grant("TMPDIR", "/tmp").grant(no_template, empty);
        let temporary = if policy.landlock_only {
            // `/tmp` is everybody's.
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
            (plan.overlaid, environment) = caches::of_packages(policy.home.as_deref(), environment);
            // A directory that is worked in, or around one, stays as it is.
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

    /// Calls `report` with the reason when a command cannot start because the sandbox cannot be set up any more. The command
    /// fails with that reason, too; nothing runs in its place.
    #[must_use]
    pub fn with_loss_report(mut self, report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.loss_report = Some(LossReport(Box::new(report)));
        self
    }

    /// Sets the sandbox up, unless it stands, and says what it consists of.
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

    /// Hides these files and directories too, absolute and physical, from the next command on, as far as they are there when one
    /// starts.
    ///
    /// # Errors
    /// [`SandboxError::Missing`] when the sandbox cannot be told. The next command then sets it up anew, with them hidden.
    pub fn hide(&self, paths: &[PathBuf]) -> Result<(), SandboxError> {
        self.exec.hide(paths).map_err(|error| SandboxError::Missing {
            what: format!("the sandbox cannot be told what to hide: {error}"),
        })
    }

    /// [`Self::self_test`] for a caller that waits, inside of a runtime or outside: it runs on a thread of its own.
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

    /// Proves that the sandbox holds: a command inside tries to write outside, to change what is protected, to read what is
    /// hidden, to reach this process and to connect, and must fail in all of it.
    ///
    /// A second run of it tries all of that outside at the same time, against files and sockets planted for
    /// that in the state directory of the policy and beside it. A passed test is remembered there: for the
    /// same policy and program it is not repeated before the machine is started anew.
    ///
    /// # Errors
    /// [`SandboxError::SelfTest`] when something is open, [`SandboxError::Missing`] when that cannot be found out,
    /// [`SandboxError::StateWithin`] when the state directory is no place to find it out.
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
                .map_or(Ok(()), fs::create_dir_all)
                .and_then(|()| fs::write(record, held.join("\n")));
        }
        Ok(SelfTest { held, unproven, cached: false })
    }

    /// Request of a command with the variables that it connects by, and its grant. Without both where nothing is to be let
    /// through.
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
            // To npm a variable is the same in either case.
            let is_name = |set: &OsStr| set.eq_ignore_ascii_case(&name);
            let is_set = self.environment.vars().any(|(set, _)| is_name(set));
            if !is_set && !request.env.keys().any(|set| is_name(set)) {
                request.env.insert(name.into(), value.into());
            }
        }
        request.connections = Some(connections);
        Ok((request, Some(granted)))
    }

    /// Runs this program inside to try what a description says; the acts that worked, if all were tried.
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
    /// Of repositories that the last ones made, what starts programs is set aside, as after each command. The result of a
    /// command that is started afterwards tells of it.
    pub async fn close(&self) {
        self.exec.close().await;
        self.check_repositories().await;
    }

    /// Looks at the repositories that commands have made, and sets aside what starts programs.
    async fn check_repositories(&self) {
        let Some(repositories) = self.repositories.clone() else { return };
        if tokio::runtime::Handle::try_current().is_err() {
            return repositories.check();
        }
        let _ = tokio::task::spawn_blocking(move || repositories.check()).await;
    }
}

/// Variables that name the proxy to programs, which know it by one of them, and the network inside by another.
fn proxy_variables(address: Ipv4Addr, names_this_machine: bool) -> Vec<(&'static str, String)> {
    let place = format!("{address}:{}", proxy::PORT);
    let (http, socks) = (format!("http://{place}"), format!("socks5h://{place}"));
    // Libraries without SOCKS fail at a proxy for all protocols that is one; those that speak it have names of their own.
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let mut variables: Vec<_> = names.into_iter().map(|name| (name, http.clone())).collect();
    variables.extend(["SOCKS_PROXY", "socks_proxy"].map(|name| (name, socks.clone())));
    variables.extend(["SOCKS5_SERVER", "RSYNC_PROXY"].map(|name| (name, place.clone())));
    variables.push(("GIT_PROXY_COMMAND", connector::PROGRAM.to_owned()));
    // To a command that names this machine it is the one outside.
    let inside = if names_this_machine { "" } else { "localhost,127.0.0.1,::1" };
    variables.extend([("NO_PROXY", inside.to_owned()), ("no_proxy", inside.to_owned())]);
    // Programs of Node.js connect by themselves otherwise.
    variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    variables
}

/// Points caches to the temporary directory, and keeps git from what it would start or refresh while it reads.
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
        // Refuses: nothing outlives the sandbox.
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
        // Commands in the background may have gone on to change them.
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
