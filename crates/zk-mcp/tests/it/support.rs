use std::io::{BufReader, stdin, stdout};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use zk_core::kernel::{AnyEvent, Bus, Cx};
use zk_core::model::{ToolContent, ToolError, ToolOutput};
use zk_core::service::{Exec, Tool, ToolCx};
use zk_exec::{Environment, ProcessExec};
use zk_mcp::{McpPlugin, McpServers, ServerConfig, ServerState};
use zk_testkit::{FakeMcpEnd, FakeMcpScript, FakeMcpServer};

/// The variable that makes this program the fake server.
const ROLE: &str = "ZK_FAKE_MCP";

/// Instructions of a server that panics instead of crashing.
pub(crate) const PANICS: &str = "I panic";

/// Long enough for anything, on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Not a test: the program that the tests start as a server.
#[test]
#[expect(clippy::disallowed_methods, clippy::exit, reason = "this is a program of its own")]
fn fake_server() {
    let Ok(script) = std::env::var(ROLE) else { return };
    let script: FakeMcpScript = serde_json::from_str(&script).unwrap();
    let vars = std::env::vars().map(|(name, _)| name).collect();
    let panics = script.instructions.as_deref() == Some(PANICS);
    let server = FakeMcpServer::new(script, vars, BufReader::new(stdin()), stdout());
    eprintln!("fake server is up");
    // After the first output of the test harness.
    println!();
    match server.serve() {
        Ok(FakeMcpEnd::Input) => std::process::exit(0),
        Ok(FakeMcpEnd::Crash) if panics => panic!("the fake server broke"),
        Ok(FakeMcpEnd::Crash) | Err(_) => std::process::exit(3),
    }
}

/// Definition of a server that follows `script`.
pub(crate) fn fake(script: &FakeMcpScript) -> Value {
    let program = std::env::current_exe().unwrap();
    json!({
        "command": program,
        "args": ["support::fake_server", "--exact", "--nocapture", "--test-threads=1"],
        "env": { ROLE: serde_json::to_string(script).unwrap() },
    })
}

pub(crate) fn config(name: &str, script: &FakeMcpScript) -> ServerConfig {
    ServerConfig::read(name, &fake(script)).unwrap()
}

pub(crate) fn exec() -> Arc<dyn Exec> {
    Arc::new(ProcessExec::new(Environment::filtered([
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("SECRET_TOKEN", "hunter2"),
    ])))
}

/// A bus with servers, and every event of theirs.
pub(crate) struct Host {
    pub(crate) bus: Bus,
    pub(crate) servers: Arc<McpServers>,
    events: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Host {
    pub(crate) fn new(plugin: McpPlugin) -> Self {
        let bus = Bus::new();
        let events: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let seen = events.clone();
        bus.scope("watcher").observe(move |event: &dyn AnyEvent, _: &Cx| {
            if event.name().starts_with("mcp:") {
                let data = event.to_json().unwrap();
                seen.lock().unwrap().push((event.name().to_owned(), data));
            }
        });
        bus.install(&plugin.exec(exec())).unwrap();
        let servers = bus.service::<McpServers>().unwrap();
        Self { bus, servers, events }
    }

    pub(crate) fn of(servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        Self::new(McpPlugin::new(servers, std::env::temp_dir()))
    }

    /// One server, ready.
    pub(crate) async fn ready(script: &FakeMcpScript) -> Self {
        let host = Self::of([config("fake", script)]);
        host.servers.warm_up(LONG).await;
        assert!(matches!(host.state(), ServerState::Ready { .. }), "{:?}", host.state());
        host
    }

    pub(crate) fn state(&self) -> ServerState {
        self.servers.status().remove(0).state
    }

    /// Waits until the state of the first server satisfies `is`.
    pub(crate) async fn until(&self, is: impl Fn(&ServerState) -> bool) -> ServerState {
        let poll = async {
            loop {
                let state = self.state();
                if is(&state) {
                    return state;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, poll).await.unwrap_or_else(|_| panic!("{:?}", self.state()))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.bus.items::<dyn Tool>().iter().map(|tool| tool.name.to_string()).collect()
    }

    pub(crate) async fn call(&self, tool: &str, args: Value) -> Result<ToolOutput, ToolError> {
        let cx = ToolCx::new(self.bus.cx(), std::env::temp_dir());
        self.call_with(tool, args, &cx).await
    }

    pub(crate) async fn call_with(
        &self,
        tool: &str,
        args: Value,
        cx: &ToolCx,
    ) -> Result<ToolOutput, ToolError> {
        let item = self.bus.item::<dyn Tool>(tool).unwrap_or_else(|| panic!("no {tool}: {:?}", self.names()));
        let approved = cx.approve(item.clone(), args).await?;
        let called = tokio::time::timeout(LONG, item.call(&approved, cx)).await;
        called.unwrap_or_else(|_| panic!("{tool} does not end: {:?}", self.servers.status()))
    }

    pub(crate) async fn text(&self, tool: &str, args: Value) -> String {
        match self.call(tool, args).await.unwrap().content {
            ToolContent::Text(text) => text,
            ToolContent::Blocks(blocks) => panic!("{blocks:?}"),
        }
    }

    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|(at, _)| at == name).map(|(_, data)| data.clone()).collect()
    }
}

/// Whether the process runs and is no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z'))
}

/// The processes of fake servers with this mark in their environment.
pub(crate) fn processes(mark: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    all.filter(|pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        is_alive(*pid) && *pid != std::process::id() && String::from_utf8_lossy(&environ).contains(mark)
    })
    .collect()
}
