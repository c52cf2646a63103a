//! Commands of settings as hooks of runs.

mod changes;
mod faults;
mod recorded;
mod scenes;

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_agent::{Agent, AgentConversation};
use zk_core::events::ToolBlocked;
use zk_core::kernel::{Bus, Cx};
use zk_core::model::{Approved, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, Exec, Tool, ToolCx};
use zk_exec::{Environment, ProcessExec};
use zk_hooks::{CommandHooks, HookSet, HookSource};
use zk_testkit::{Script, ScriptedProvider};

/// A bus that can start programs.
pub(super) fn bus() -> Bus {
    let bus = Bus::new();
    let exec = ProcessExec::new(Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]));
    bus.scope("local").provide_service::<dyn Exec>(Arc::new(exec));
    bus
}

/// A tool that remembers what it was called with.
struct Recording(Arc<Mutex<Vec<Value>>>, Arc<ToolSpec>);

impl Recording {
    fn of_nobody() -> Self {
        Self(Arc::default(), ToolSpec::new("shell", "Runs.", json!({"type": "object"})))
    }
}

#[async_trait]
impl Tool for Recording {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.1
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        self.0.lock().unwrap().push(call.args().clone());
        Ok(ToolOutput::text("done so"))
    }
}

/// A project with hooks, and a model that calls `shell` once and then says that it is done.
pub(super) struct Scene {
    pub(super) dir: tempfile::TempDir,
    pub(super) bus: Bus,
    pub(super) source: HookSource,
    pub(super) script: Script,
    /// Function that registers handlers behind the hooks.
    pub(super) behind: fn(&Bus),
}

/// Outcome of a run.
#[derive(Debug)]
pub(super) struct Seen {
    /// The arguments of each call that ran.
    pub(super) ran: Vec<Value>,
    /// Reasons of refused calls.
    pub(super) refused: Vec<String>,
    /// The results of the calls, as the model got them.
    pub(super) results: Vec<String>,
    /// The texts of all messages of the last request that are the user's, the prompt among them.
    pub(super) told: Vec<String>,
    pub(super) requests: usize,
    /// Words of hooks to the person.
    pub(super) notices: Vec<String>,
    pub(super) is_ok: bool,
    pub(super) abort_reason: Option<String>,
}

impl Scene {
    pub(super) fn new() -> Self {
        let source = HookSource { place: "settings.toml".into(), is_claude: false, may_allow: true };
        let script = Script::new()
            .turn(|turn| turn.call("shell", json!({"command": "ls"})))
            .turn(|turn| turn.text("Done."))
            .turn(|turn| turn.text("Done again."));
        Self { dir: tempfile::tempdir().unwrap(), bus: bus(), source, script, behind: |_| () }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the inputs that a hook kept in the file `name`, one object for each time it ran.
    pub(super) fn inputs(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path().join(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(super) async fn run(self, hooks: Value) -> (Seen, Self) {
        let set = HookSet::read(&hooks, self.source.clone()).unwrap();
        let (notices, ran, refused) =
            (Arc::<Mutex<Vec<String>>>::default(), Arc::default(), Arc::<Mutex<Vec<String>>>::default());
        let kept = notices.clone();
        let plugin = CommandHooks::new(set, self.path())
            .on_notice(move |text| kept.lock().unwrap().push(text.to_owned()));
        let scope = self.bus.install(&plugin).unwrap();
        (self.behind)(&self.bus);
        let kept = refused.clone();
        let watcher = self.bus.scope("watcher");
        watcher.on_sync(move |event: &ToolBlocked, _: &Cx| kept.lock().unwrap().push(event.reason.clone()));
        let schema = json!({
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
            "additionalProperties": false,
        });
        let spec = ToolSpec::new("shell", "Runs.", schema);
        let provider = ScriptedProvider::new(self.script.clone());
        let agent = Agent::builder(Arc::new(provider.clone()))
            .bus(self.bus.clone())
            .tool(Arc::new(Recording(Arc::clone(&ran), spec)))
            .build()
            .unwrap();
        let conversation = AgentConversation::new(agent.clone());
        let outcome = conversation.run("Do it.").await.unwrap().wait().await;
        scope.close().await;
        watcher.close().await;
        let told = provider.asked().last().map_or_else(Vec::new, |request| {
            let user = request.messages.iter().filter(|message| message.role == zk_core::model::Role::User);
            user.map(|message| message.text()).filter(|text| !text.is_empty()).collect()
        });
        let seen = Seen {
            ran: ran.lock().unwrap().clone(),
            refused: refused.lock().unwrap().clone(),
            results: provider.last_results().iter().map(|result| result.text.clone()).collect(),
            told,
            requests: provider.requests().len(),
            notices: notices.lock().unwrap().clone(),
            is_ok: outcome.result.is_ok(),
            abort_reason: outcome.abort_reason,
        };
        (seen, self)
    }
}

/// One hook of one event. One that sleeps is to be ended; all others have the time they need.
pub(super) fn hook(event: &str, command: &str) -> Value {
    let timeout = if command.contains("sleep") { 1 } else { 60 };
    json!({ event: [{"command": command, "timeout": timeout}] })
}

/// A command that prints JSON.
pub(super) fn printing(output: &Value) -> String {
    format!("cat >/dev/null; cat <<'END'\n{output}\nEND")
}
