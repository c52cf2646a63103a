use async_trait::async_trait;
use zk_core::service::{Exec, ExecError, ExecRequest, Process};

use super::placeholders::Placeholders;
use super::plan::Plan;
use super::policy::SandboxPolicy;
use super::report::{SandboxError, SandboxReport};
use crate::{Environment, ProcessExec, Supervision};

/// Runs commands on this machine, in a sandbox: the `dyn Exec` of the context `sandbox`.
///
/// One process per policy is moved to user, mount, process, IPC and network namespaces, once; commands are started from
/// it and are in addition restricted by Landlock and seccomp, without any right of a superuser. What [`ProcessExec`]
/// promises holds as well.
///
/// | | inside |
/// |---|---|
/// | workspace, `/tmp`, `/var/tmp`, `/dev/shm` | written; the last three are empty, in memory, and gone with the sandbox |
/// | `.git/{config,hooks,info,commondir}`, `.zk`, start files of shells | read, not written, also where they do not exist |
/// | credentials, zk's own files, `/run`, sockets of services | hidden |
/// | everything else | read |
/// | processes outside | not seen |
/// | network | none, loopback, or all: [`Network`](crate::Network) |
///
/// What it cannot prevent: changes to files that a person runs later, such as a Makefile; the loss of what can be written.
#[derive(Debug)]
pub struct SandboxExec {
    // Dropped first: it ends all commands.
    exec: ProcessExec,
    placeholders: Placeholders,
    limits: Vec<String>,
}

impl SandboxExec {
    /// Prepares a sandbox for the policy. It is set up with the first command, or by [`SandboxExec::start`].
    ///
    /// # Errors
    /// [`SandboxError`] when the policy cannot be used.
    pub fn new(
        policy: &SandboxPolicy,
        environment: Environment,
        supervision: Supervision,
    ) -> Result<Self, SandboxError> {
        let (plan, places) = Plan::of(policy)?;
        let placeholders = Placeholders::make(places.placeholders, &plan.writable, policy.state.as_deref());
        let environment = environment.without("XDG_RUNTIME_DIR").grant("TMPDIR", "/tmp");
        Ok(Self {
            exec: ProcessExec::sandboxed(environment, supervision, plan.encode()),
            placeholders,
            limits: places.limits,
        })
    }

    /// Sets the sandbox up, unless it stands, and says what it consists of.
    ///
    /// # Errors
    /// [`SandboxError::Missing`] when it cannot be set up.
    pub fn start(&self) -> Result<SandboxReport, SandboxError> {
        let report = self.exec.start_sandbox();
        let mut report = report.map_err(|error| SandboxError::Missing { what: error.to_string() })?;
        report.limits.clone_from(&self.limits);
        Ok(report)
    }

    /// Ends all commands and takes the sandbox down.
    pub async fn close(&self) {
        self.exec.close().await;
        self.placeholders.remove();
    }
}

#[async_trait]
impl Exec for SandboxExec {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        self.exec.spawn(request).await
    }
}
