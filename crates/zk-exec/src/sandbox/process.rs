use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use zk_core::service::{Denial, DeniedAct, ExecError, Exit, KillSignal, Process, ProcessEvent, TerminalSize};

use super::denial::{Denials, MOST};
use super::printed::Printed;
use super::proxy::{Granted, Proxy, Refusal};

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
}

#[async_trait]
impl Process for SandboxProcess {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        let event = self.inner.next().await?;
        match &event {
            Some(ProcessEvent::Output(stream, bytes)) => self.printed.add(*stream, bytes),
            Some(ProcessEvent::Exited(exit)) => self.failed = *exit != Exit::Code(0),
            Some(ProcessEvent::Closed(_)) | None => {}
        }
        Ok(event)
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
        let limits = self.inner.denials();
        if !limits.is_empty() {
            return limits;
        }
        // Programs ask for hosts that they do without; it counts if the command failed, or says so itself.
        let is_told = |target: &str| {
            self.failed || self.printed.contains(target.rsplit_once(':').map_or(target, |(host, _)| host))
        };
        let refused = self.proxy.iter().flat_map(|proxy| proxy.refused_since(self.began));
        let mut found: Vec<Denial> = Vec::new();
        for Refusal { target, why, .. } in refused.filter(|refusal| is_told(&refusal.target)) {
            let denial = Denial { act: DeniedAct::Connect, target, reason: why };
            if found.len() < MOST && !found.contains(&denial) {
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
