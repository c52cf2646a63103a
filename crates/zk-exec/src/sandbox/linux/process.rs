use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use zk_core::service::{Denial, DeniedAct, ExecError, Exit, KillSignal, Process, ProcessEvent, TerminalSize};

use super::denial::{Denials, MAX_TOLD_DENIALS};
use super::printed::Printed;
use super::proxy::{Granted, Proxy, Refusal};
use super::repositories::Repositories;

/// Command in a sandbox, with the parts of its output that are searched for denials.
pub(super) struct SandboxProcess {
    pub(super) inner: Box<dyn Process>,
    pub(super) rules: Arc<Denials>,
    pub(super) proxy: Option<Proxy>,
    /// Grant that ends with this process.
    pub(super) _granted: Option<Granted>,
    pub(super) began: Instant,
    pub(super) cwd: PathBuf,
    pub(super) printed: Printed,
    pub(super) failed: bool,
    /// Running check of the command's new repositories, and the exit event, which is delivered after it.
    pub(super) check: Option<(JoinHandle<()>, ProcessEvent)>,
    pub(super) set_aside: SetAsides,
}

/// Parts of repositories that were set aside. Unreported ones are kept for the next command's result.
pub(super) struct SetAsides {
    /// `None` if commands cannot make repositories.
    repositories: Option<Repositories>,
    found: Vec<Denial>,
    /// Number of reported entries of `found`.
    told: AtomicUsize,
}

impl SetAsides {
    /// Collects the unreported parts.
    pub(super) fn of(repositories: Option<Repositories>) -> Self {
        let mut made = Self { repositories, found: Vec::new(), told: AtomicUsize::new(0) };
        made.take_found();
        made
    }

    fn take_found(&mut self) {
        self.found.extend(self.repositories.iter().flat_map(Repositories::take_found));
    }

    fn report_found(&self) -> Vec<Denial> {
        self.told.store(self.found.len(), Ordering::Relaxed);
        self.found.clone()
    }
}

impl Drop for SetAsides {
    fn drop(&mut self) {
        let untold = self.found.split_off((*self.told.get_mut()).min(self.found.len()));
        if let Some(repositories) = self.repositories.as_ref().filter(|_| !untold.is_empty()) {
            repositories.keep_found(untold);
        }
    }
}

impl SandboxProcess {
    /// Records the output and exit of an event.
    fn record_event(&mut self, event: Option<ProcessEvent>) -> Option<ProcessEvent> {
        match &event {
            Some(ProcessEvent::Output(stream, bytes)) => self.printed.add(*stream, bytes),
            Some(ProcessEvent::Exited(exit)) => self.failed = *exit != Exit::Code(0),
            Some(ProcessEvent::Closed(_)) | None => {}
        }
        event
    }
}

#[async_trait]
impl Process for SandboxProcess {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        // A check that an earlier, cancelled call began is continued.
        if self.check.is_none() {
            let event = self.inner.next().await?;
            match (event, &self.set_aside.repositories) {
                (Some(event @ ProcessEvent::Exited(_)), Some(repositories)) => {
                    let repositories = repositories.clone();
                    let check = tokio::task::spawn_blocking(move || repositories.check());
                    self.check = Some((check, event));
                }
                (event, _) => return Ok(self.record_event(event)),
            }
        }
        if let Some((check, _)) = &mut self.check {
            let _ = check.await;
        }
        self.set_aside.take_found();
        let event = self.check.take().map(|(_, event)| event);
        Ok(self.record_event(event))
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ExecError> {
        self.inner.write(bytes).await
    }

    async fn close_input(&mut self) -> Result<(), ExecError> {
        self.inner.close_input().await
    }

    async fn resize(&mut self, size: TerminalSize) -> Result<(), ExecError> {
        self.inner.resize(size).await
    }

    async fn kill(&mut self, signal: KillSignal) -> Result<(), ExecError> {
        self.inner.kill(signal).await
    }

    async fn members(&mut self) -> Result<Vec<u32>, ExecError> {
        self.inner.members().await
    }

    fn denials(&self) -> Vec<Denial> {
        let mut found = self.inner.denials();
        let is_limited = !found.is_empty();
        found.extend(self.set_aside.report_found());
        if is_limited {
            return found;
        }
        let of_before = found.len();
        // Programs often ask for hosts that they can do without: a refusal counts if the command failed, or
        // mentions the host.
        let is_told = |target: &str| {
            self.failed || self.printed.contains(target.rsplit_once(':').map_or(target, |(host, _)| host))
        };
        let refused = self.proxy.iter().flat_map(|proxy| proxy.refused_since(self.began));
        for Refusal { target, why, .. } in refused.filter(|refusal| is_told(&refusal.target)) {
            let denial = Denial { act: DeniedAct::Connect, target, reason: why };
            if found.len() < of_before + MAX_TOLD_DENIALS && !found.contains(&denial) {
                found.push(denial);
            }
        }
        found.extend(self.printed.denials(&self.rules, &self.cwd, self.failed));
        found
    }

    fn release(self: Box<Self>) {
        self.inner.release();
    }
}
