use std::sync::Arc;

use zk_core::events::ToolPrepare;
use zk_core::kernel::{Answer, Cx, Handler, Scope};
use zk_exec::SandboxExec;
use zk_permission::{DeniedFiles, PermissionJudge, Rule};

/// Searches before each command for files that rules deny by a pattern.
#[must_use]
pub fn watch_denied_files(
    scope: &Scope,
    rules: impl Iterator<Item = Rule>,
    judge: PermissionJudge,
) -> Arc<DeniedFiles> {
    let files = Arc::new(DeniedFiles::new(rules, judge));
    if files.is_needed() {
        scope.handle::<ToolPrepare, _>(Arc::new(Look(files.clone())));
    }
    files
}

/// Hides newly found denied files in a sandbox.
pub fn hide_in(files: &DeniedFiles, sandbox: &Arc<SandboxExec>) {
    let sandbox = Arc::downgrade(sandbox);
    // A sandbox that cannot be reached is set up again.
    files.hide_in(Box::new(move |paths| sandbox.upgrade().map(|sandbox| sandbox.hide(paths)).is_some()));
}

struct Look(Arc<DeniedFiles>);

impl Handler<ToolPrepare> for Look {
    async fn call(&self, event: &ToolPrepare, _: &Cx) -> Answer<ToolPrepare> {
        if event.call.name == "shell" {
            let files = self.0.clone();
            tokio::task::spawn_blocking(move || files.find_new_files()).await?;
        }
        Ok(None)
    }
}
