use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use zk_core::service::{Denial, DeniedAct, ExecError, Exit, KillSignal, Process, ProcessEvent, TerminalSize};

use super::denial::{Denials, MOST};
use super::printed::Printed;
use super::proxy::{Granted, Proxy, Refusal};
use super::repositories::Repositories;

/// A command in a sandbox, which remembers some of what it printed.
pub(super) struct SandboxProcess {
    pub(super) inner: Box<dyn Process>,
    pub(super) rules: Arc<Denials>,
    pub(super) proxy: Option<Proxy>,
    /// Ends with this.
    pub(super) _granted: Option<Granted>,
    pub(super) began: Instant,
    pub(super) cwd: PathBuf,
    pub(super) printed: Printed,
    pub(super) failed: bool,
    /// Nothing where no command makes a repository.
    pub(super) repositories: Option<Repositories>,
    /// A look at what it has made, and its end, which is told afterwards.
    pub(super) check: Option<(JoinHandle<Vec<Denial>>, ProcessEvent)>,
    /// Parts of repositories that were set aside.
    pub(super) set_aside: Vec<Denial>,
}

impl SandboxProcess {
    /// Takes note of what happened.
    fn note(&mut self, event: Option<ProcessEvent>) -> Option<ProcessEvent> {
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
        // Kept over a call that is cancelled.
        if self.check.is_none() {
            let event = self.inner.next().await?;
            match (event, &self.repositories) {
                (Some(event @ ProcessEvent::Exited(_)), Some(repositories)) => {
                    let repositories = repositories.clone();
                    let check = tokio::task::spawn_blocking(move || repositories.check());
                    self.check = Some((check, event));
                }
                (event, _) => return Ok(self.note(event)),
            }
        }
        let found = match &mut self.check {
            Some((check, _)) => check.await.unwrap_or_default(),
            None => Vec::new(),
        };
        self.set_aside.extend(found);
        let event = self.check.take().map(|(_, event)| event);
        Ok(self.note(event))
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
        found.extend(self.set_aside.iter().cloned());
        if is_limited {
            return found;
        }
        let of_before = found.len();
        // Programs ask for hosts that they do without; it counts if the command failed, or says so itself.
        let is_told = |target: &str| {
            self.failed || self.printed.contains(target.rsplit_once(':').map_or(target, |(host, _)| host))
        };
        let refused = self.proxy.iter().flat_map(|proxy| proxy.refused_since(self.began));
        for Refusal { target, why, .. } in refused.filter(|refusal| is_told(&refusal.target)) {
            let denial = Denial { act: DeniedAct::Connect, target, reason: why };
            if found.len() < of_before + MOST && !found.contains(&denial) {
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
