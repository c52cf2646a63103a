use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use zk_core::service::{Denial, DeniedAct, ExecError, Exit, KillSignal, Process, ProcessEvent, TerminalSize};

use super::denial::{Denials, MOST, TAIL};
use super::proxy::{Proxy, Refusal};

/// A command in a sandbox, which remembers what it printed last.
pub(super) struct SandboxProcess {
    pub(super) inner: Box<dyn Process>,
    pub(super) rules: Arc<Denials>,
    pub(super) proxy: Option<Proxy>,
    pub(super) began: Instant,
    pub(super) cwd: PathBuf,
    pub(super) tail: Vec<u8>,
    pub(super) failed: bool,
}

#[async_trait]
impl Process for SandboxProcess {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, ExecError> {
        let event = self.inner.next().await?;
        match &event {
            Some(ProcessEvent::Output(_, bytes)) => {
                self.tail
                    .extend_from_slice(bytes.get(bytes.len().saturating_sub(TAIL)..).unwrap_or_default());
                let surplus = self.tail.len().saturating_sub(TAIL);
                self.tail.drain(..surplus);
            }
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
        if !self.failed || !limits.is_empty() {
            return limits;
        }
        let refused = self.proxy.iter().flat_map(|proxy| proxy.refused_since(self.began));
        let mut found: Vec<Denial> = Vec::new();
        for Refusal { target, why, .. } in refused {
            let denial = Denial { act: DeniedAct::Connect, target, reason: why };
            if found.len() < MOST && !found.contains(&denial) {
                found.push(denial);
            }
        }
        found.extend(self.rules.in_output(&String::from_utf8_lossy(&self.tail), &self.cwd));
        found
    }

    fn release(self: Box<Self>) {
        self.inner.release();
    }
}
