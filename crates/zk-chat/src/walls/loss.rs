use std::sync::Arc;
use std::time::Duration;

use zk_core::events::ToolPrepare;
use zk_core::kernel::{Answer, Cx, Handler, Scope};
use zk_exec::SandboxExec;
use zk_tools::LostSandbox;
use zk_tui::plain::Notices;

/// Maximum time that a command waits for an attempt to set up the sandbox again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Requires a question for each command after the sandbox was lost, until it can be set up again.
#[must_use]
pub fn watch_for_loss(scope: &Scope, exec: SandboxExec, notices: Notices) -> Arc<SandboxExec> {
    let lost = LostSandbox::default();
    let (reported, shown) = (lost.clone(), notices.clone());
    let exec = Arc::new(exec.with_loss_report(move |why| {
        if reported.report(why) {
            shown.show(&format!(
                "warning: each command asks from now on, to run as a process of yours, until the sandbox can be set up \
                 again: {why}"
            ));
        }
    }));
    scope.provide_service(Arc::new(lost.clone()));
    scope.handle::<ToolPrepare, _>(Arc::new(Retry { lost, exec: exec.clone(), notices }));
    exec
}

/// Tries to set a lost sandbox up again before a command is judged.
struct Retry {
    lost: LostSandbox,
    exec: Arc<SandboxExec>,
    notices: Notices,
}

impl Handler<ToolPrepare> for Retry {
    async fn call(&self, event: &ToolPrepare, _: &Cx) -> Answer<ToolPrepare> {
        if event.call.name != "shell" || self.lost.reason().is_none() {
            return Ok(None);
        }
        let exec = self.exec.clone();
        // The attempt blocks on a process that sets up the sandbox.
        let attempt = tokio::task::spawn_blocking(move || exec.start().is_ok());
        let is_set_up = matches!(tokio::time::timeout(RETRY_TIMEOUT, attempt).await, Ok(Ok(true)));
        if is_set_up && self.lost.clear() {
            self.notices.show("the sandbox is set up again: commands run in it from now on");
        }
        Ok(None)
    }
}
