//! A bus with an `Exec`, a program in bash, and a tool that counts how often it ran.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::json;
use zk_agent::Agent;
use zk_core::events::ToolBlocked;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Approved, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Exec, ExecRequest, Tool, ToolCx};
use zk_exec::{Environment, ProcessExec};
use zk_testkit::{Script, ScriptedProvider};

/// Reads lines and has the number of each in `$id`, until `$line` is to be answered.
pub(crate) const READ: &str = r#"
ask() {
    while IFS= read -r line; do
        id=${line#*:}; id=${id%%,*}
        case $line in *'"reply":true'*) return 0 ;; esac
    done
    exit 0
}
"#;

/// A program that runs `script`, after the functions above.
pub(crate) fn program(script: &str) -> ExecRequest {
    let dir: PathBuf = std::env::temp_dir();
    ExecRequest::shell(&format!("{READ}\n{script}"), dir)
}

/// One that answers every question with `reply`.
pub(crate) fn answering(reply: &str) -> ExecRequest {
    program(&format!("while ask; do printf '{{\"id\":%s,{reply}}}\\n' \"$id\"; done"))
}

/// A bus that can start programs.
pub(crate) fn bus() -> Bus {
    let bus = Bus::new();
    let exec = ProcessExec::new(Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]));
    bus.scope("local").provide_service::<dyn Exec>(Arc::new(exec));
    bus
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

/// Outcome of one call of the tool `push`.
pub(crate) struct Called {
    pub(crate) executions: usize,
    /// Reason of the refusal, if it was refused.
    pub(crate) blocked: Option<String>,
    /// Result that the model was told.
    pub(crate) result: String,
}

/// A model on `bus` calls `push` once, with an argument of `bytes` bytes.
pub(crate) async fn call(bus: &Bus, bytes: usize) -> Called {
    let executions = Arc::new(AtomicUsize::new(0));
    let spec = ToolSpec::new("push", "Pushes.", json!({"type": "object"}));
    let args = json!({"command": "x".repeat(bytes)});
    let script = Script::new().turn(move |turn| turn.call("push", args)).turn(|turn| turn.text("Done."));
    let provider = ScriptedProvider::new(script);
    let blocked = Arc::new(std::sync::Mutex::new(None));
    let (kept, watcher) = (blocked.clone(), bus.scope("watcher"));
    watcher.on_sync(move |event: &ToolBlocked, _: &Cx| *kept.lock().unwrap() = Some(event.reason.clone()));
    let agent = Agent::builder(Arc::new(provider.clone()))
        .unguarded()
        .bus(bus.clone())
        .tool(Arc::new(Counted(executions.clone(), spec)))
        .build()
        .unwrap();
    agent.run("Push it.").unwrap().wait().await.result.unwrap();
    agent.close().await;
    watcher.close().await;
    let result = provider.last_results().first().map_or_else(String::new, |result| result.text.clone());
    let blocked = blocked.lock().unwrap().clone();
    Called { executions: executions.load(Ordering::SeqCst), blocked, result }
}
