use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{ToolError, ToolOutput};
use zk_core::service::{Tool, ToolCx};
use zk_tools::{ToolsOptions, ToolsPlugin};

/// A directory with an agent's tools in it.
pub(crate) struct Desk {
    pub(crate) bus: Bus,
    pub(crate) root: PathBuf,
    pub(crate) stop: CancellationToken,
    _dir: TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::with(ToolsOptions::default())
    }

    pub(crate) fn with(options: ToolsOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let bus = Bus::new();
        crate::context::install(&bus, &root);
        bus.install(&ToolsPlugin::new(options)).unwrap();
        Self { bus, root, stop: CancellationToken::new(), _dir: dir }
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.root.join(path)).unwrap()).into_owned()
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.bus.item::<dyn Tool>(name).unwrap()
    }

    pub(crate) async fn output(&self, tool: &str, args: Value) -> Result<ToolOutput, ToolError> {
        self.output_of(&self.bus, tool, args).await
    }

    /// The call of an agent whose bus is `bus`.
    pub(crate) async fn output_of(
        &self,
        bus: &Bus,
        tool: &str,
        args: Value,
    ) -> Result<ToolOutput, ToolError> {
        self.output_in(&bus.cx(), tool, args).await
    }

    /// The call of a run whose context is `cx`.
    pub(crate) async fn output_in(&self, cx: &Cx, tool: &str, args: Value) -> Result<ToolOutput, ToolError> {
        let cx = ToolCx::new(cx.with_stop(self.stop.clone()), &self.root);
        let tool = self.tool(tool);
        tool.call(&cx.approve(tool.clone(), args).await?, &cx).await
    }

    /// The text that the model gets of a whole call, with everything that transforms results; its error as well.
    pub(crate) async fn whole(&self, tool: &str, args: Value) -> String {
        let cx = ToolCx::new(self.bus.cx().with_stop(self.stop.clone()), &self.root);
        cx.run(self.tool(tool), args).await.unwrap().result.content.to_text()
    }

    /// The text of a call that works.
    pub(crate) async fn ok(&self, tool: &str, args: Value) -> String {
        self.output(tool, args).await.unwrap().content.to_text()
    }

    /// The error of a call that does not.
    pub(crate) async fn err(&self, tool: &str, args: Value) -> ToolError {
        self.output(tool, args).await.unwrap_err()
    }
}

/// Held by a test that measures the memory of this process, or takes much of it.
pub(crate) static MEMORY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Returns `true` in a process that runs one test alone; elsewhere runs `test` in such a process, with
/// separate memory.
#[expect(clippy::disallowed_methods, reason = "the test program once more, not a command of zk")]
pub(crate) fn is_alone(test: &str) -> bool {
    if std::env::args().any(|arg| arg == "--exact") {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let done = std::process::Command::new(own).args(["--exact", test]).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && text.contains("1 passed"), "{text}");
    false
}

/// Resets the peak memory of this process, and returns [`memory`] at that moment, in bytes.
pub(crate) fn forget_peak() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    memory()
}

/// Growth of the peak memory since `before`, in bytes; 0 if the process shrank. The kernel updates the peak only
/// when memory is freed.
pub(crate) fn grown_since(before: u64) -> u64 {
    memory().saturating_sub(before)
}

/// The most memory that this process had since [`forget_peak`], in bytes.
pub(crate) fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
