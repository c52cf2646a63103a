use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use zk_core::kernel::Bus;
use zk_core::service::{Exec, ExecError, ExecRequest, Process, ReadExec};
use zk_exec::SandboxExec;
use zk_permission::PermissionJudge;
use zk_tui::plain::Notices;

/// Executor of calls that run unasked because they only read. When its sandbox cannot be set up any more, the judge asks
/// about what the sandbox held, and the call that found it out fails: nothing runs on the host in its place.
struct HeldReads {
    sandbox: SandboxExec,
    judge: PermissionJudge,
    notices: Notices,
}

/// Provides the read-only sandbox to tools, and ends it with the bus.
pub(crate) fn provide(bus: &Bus, sandbox: SandboxExec, judge: PermissionJudge, notices: Notices) {
    let held = Arc::new(HeldReads { sandbox, judge, notices });
    let scope = bus.scope("reads");
    scope.provide_service(Arc::new(ReadExec(held.clone())));
    scope.on_close(async move || held.sandbox.close().await);
}

#[async_trait]
impl Exec for HeldReads {
    async fn spawn(&self, request: ExecRequest) -> Result<Box<dyn Process>, ExecError> {
        let process = self.sandbox.spawn(request).await;
        if process.is_err()
            && let Err(error) = self.sandbox.start()
        {
            self.judge.restrict_reads();
            self.notices
                .show(&format!("warning: commands that only read are asked about from now on: {error}"));
        }
        process
    }

    async fn spawn_detached(
        &self,
        request: ExecRequest,
        output: &Path,
    ) -> Result<Box<dyn Process>, ExecError> {
        // Refuses: nothing outlives the sandbox.
        self.sandbox.spawn_detached(request, output).await
    }
}
