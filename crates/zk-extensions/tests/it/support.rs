//! An extension in bash, and an agent whose model calls tools beside it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::Agent;
use zk_core::events::ToolBlocked;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Approved, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Exec, Tool, ToolCx};
use zk_exec::{Environment, ProcessExec};
use zk_extensions::{Extension, ExtensionConfig, ExtensionHandle, ExtensionLimits};
use zk_testkit::{Script, ScriptedProvider, Turn};

/// Functions of a scripted extension: `next` reads a message into `$line`, `$id` and `$method`.
const FUNCTIONS: &str = r#"
echo $$ >> pids
next() {
    IFS= read -r line || exit 0
    id=; case $line in '{"jsonrpc":"2.0","id":'*) id=${line#*'"id":'}; id=${id%%,*} ;; esac
    method=${line#*'"method":"'}; method=${method%%'"'*}
}
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
fail() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"%s"}}\n' "$id" "$1"; }
ask() { printf '{"jsonrpc":"2.0","id":"%s","method":"%s","params":%s}\n' "$1" "$2" "$3"; }
tell() { printf '{"jsonrpc":"2.0","method":"%s","params":%s}\n' "$1" "$2"; }
hello() { next; reply "{\"protocol\":\"${2:-1.0}\",\"name\":\"x\",\"version\":\"1\",\"register\":$1}"; }
"#;

/// A directory for an extension, an executor, and what was told of it.
pub(crate) struct Stage {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) bus: Bus,
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let bus = Bus::new();
        let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
        let exec = ProcessExec::new(environment);
        bus.scope("local").provide_service::<dyn Exec>(Arc::new(exec));
        Self { dir: tempfile::tempdir().unwrap(), bus, notices: Arc::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes the extension `x` of this script.
    pub(crate) fn config(&self, script: &str) -> ExtensionConfig {
        std::fs::write(self.path().join("extension.sh"), format!("{FUNCTIONS}\n{script}")).unwrap();
        let mut config = ExtensionConfig::new("x", ["bash", "extension.sh"]);
        config.limits = ExtensionLimits { start: Duration::from_secs(20), ..ExtensionConfig::LIMITS };
        config
    }

    /// Installs an extension.
    pub(crate) fn install(&self, config: ExtensionConfig) -> ExtensionHandle {
        let notices = self.notices.clone();
        let extension = Extension::new(config, self.path())
            .on_notice(move |text| notices.lock().unwrap().push(text.to_owned()));
        self.bus.install(&extension).unwrap();
        extension.handle()
    }

    /// Installs the extension `x` of this script, and waits until it is ready.
    pub(crate) async fn ready(&self, script: &str) -> ExtensionHandle {
        let handle = self.install(self.config(script));
        handle.ready().await.unwrap();
        handle
    }

    pub(crate) fn notices(&self) -> String {
        self.notices.lock().unwrap().join("\n")
    }

    /// Process ids of the extension, in the order of its starts.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Closes everything, and waits until no process of the extension is left.
    pub(crate) async fn close(self) {
        self.bus.close().await;
        let pids = self.pids();
        until("no process is left", || pids.iter().all(|pid| !is_running(*pid))).await;
    }
}

/// Whether a process exists and is no zombie.
fn is_running(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut is_met: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_met() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within a minute: {what}");
}

struct Counted(Arc<AtomicUsize>, Arc<ToolSpec>);

#[async_trait]
impl Tool for Counted {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.1
    }

    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(ToolOutput::text("pushed"))
    }
}

/// Outcome of one call.
#[derive(Debug)]
pub(crate) struct Called {
    /// Number of executions of `push`.
    pub(crate) executions: usize,
    /// Reason of the refusal, if it was refused.
    pub(crate) blocked: Option<String>,
    /// Result that the model was told.
    pub(crate) result: String,
    /// Requests to the model, as text.
    pub(crate) requests: String,
}

/// A model on `bus` calls `tool` once; there is a tool `push`.
pub(crate) async fn call(bus: &Bus, tool: &str, args: Value) -> Called {
    let executions = Arc::new(AtomicUsize::new(0));
    let spec = ToolSpec::new("push", "Pushes.", json!({"type": "object"}));
    let tool = tool.to_owned();
    let script = Script::new().turn(move |turn| turn.call(&tool, args));
    let script = script.forever(|_| Turn::new().text("Done."));
    let provider = ScriptedProvider::new(script);
    let blocked = Arc::new(Mutex::new(None));
    let (kept, watcher) = (blocked.clone(), bus.scope("watcher"));
    watcher.on_sync(move |event: &ToolBlocked, _: &Cx| *kept.lock().unwrap() = Some(event.reason.clone()));
    let agent = Agent::builder(Arc::new(provider.clone()))
        .unguarded()
        .bus(bus.clone())
        .tool(Arc::new(Counted(executions.clone(), spec)))
        .build()
        .unwrap();
    agent.run("Push it.").unwrap().wait().await.result.unwrap();
    let result = provider.last_results().first().map_or_else(String::new, |result| result.text.clone());
    let requests = format!("{:?}", provider.requests());
    agent.close().await;
    watcher.close().await;
    let blocked = blocked.lock().unwrap().clone();
    Called { executions: executions.load(Ordering::SeqCst), blocked, result, requests }
}

/// Path of a file of this crate.
pub(crate) fn of_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Whether a program is there; says so if not.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
pub(crate) fn has(program: &str, why: &str) -> bool {
    let found =
        ["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|dir| Path::new(dir).join(program).exists());
    if !found {
        println!("skipped: no {program} for {why}");
    }
    found
}
