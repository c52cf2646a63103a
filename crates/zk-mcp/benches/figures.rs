//! Durations of the work around servers: prints them, asserts nothing.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a program of its own that measures, and that plays the server"
)]

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zk_core::events::SessionStart;
use zk_core::kernel::Bus;
use zk_core::model::RunId;
use zk_core::service::{Exec, PromptSection, Tool, ToolCx};
use zk_exec::{Environment, ProcessExec};
use zk_mcp::{McpPlugin, McpServers, ServerConfig, ServerState};
use zk_testkit::{FakeMcpFault, FakeMcpScript, FakeMcpServer};

const ROLE: &str = "ZK_FAKE_MCP";
const LONG: Duration = Duration::from_secs(60);
const TOOLS: usize = 500;
const CALLS: u32 = 500;
const SILENT: usize = 50;

fn main() {
    if let Ok(script) = std::env::var(ROLE) {
        let script: FakeMcpScript = serde_json::from_str(&script).unwrap();
        let served = FakeMcpServer::new(script, Vec::new(), BufReader::new(stdin()), stdout()).serve();
        std::process::exit(i32::from(served.is_err()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listing().await;
        prompts().await;
    });
}

fn config(name: &str, script: &FakeMcpScript) -> ServerConfig {
    let program = std::env::current_exe().unwrap();
    let definition = json!({"command": program, "env": {ROLE: serde_json::to_string(script).unwrap()}});
    ServerConfig::read(name, &definition).unwrap()
}

fn bus(servers: impl IntoIterator<Item = ServerConfig>) -> (Bus, Arc<McpServers>) {
    let exec: Arc<dyn Exec> =
        Arc::new(ProcessExec::new(Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")])));
    let bus = Bus::new();
    bus.install(&McpPlugin::new(servers, std::env::temp_dir()).exec(exec)).unwrap();
    let servers = bus.service::<McpServers>().unwrap();
    (bus, servers)
}

/// As many as fit into one variable of the server's environment.
fn tools() -> Vec<Value> {
    let tool = |at: usize| {
        let schema = json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "The file"},
            "limit": {"type": "integer", "description": "How many lines at most"},
        }, "required": ["path"]});
        json!({"name": format!("tool_{at}"), "description": "Reads a part of a file", "inputSchema": schema})
    };
    let mut tools: Vec<Value> = (0..TOOLS - 1).map(tool).collect();
    tools.push(json!({"name": "echo", "inputSchema": {"type": "object"}}));
    tools
}

/// Time from a start to the tools, with 500 of them and with one: the difference is the cost of listing.
async fn listing() {
    let few = vec![json!({"name": "echo", "inputSchema": {"type": "object"}})];
    let (mut took, mut alone) = ([Duration::MAX; 2], Duration::MAX);
    for _ in 0..5 {
        for (at, tools) in [few.clone(), tools()].into_iter().enumerate() {
            let script = FakeMcpScript { tools: Some(tools), ..FakeMcpScript::default() };
            let begun = Instant::now();
            let (bus, servers) = bus([config("s", &script)]);
            servers.warm_up(LONG).await;
            if let Some(best) = took.get_mut(at) {
                *best = begun.elapsed().min(*best);
            }
            let state = servers.status().remove(0).state;
            assert!(matches!(state, ServerState::Ready { .. }), "{state:?}");
            if at == 1 {
                alone = alone.min(calls(&bus).await);
            }
            bus.close().await;
        }
    }
    let [few, many] = took;
    println!("start and one tool            {few:>10.2?}");
    println!(
        "start and {TOOLS} tools           {many:>10.2?}   {:.2?} for listing; the server alone takes {alone:.2?}, so {:.2?} of it zk",
        many.saturating_sub(few),
        many.saturating_sub(alone)
    );
}

/// Calls a tool; returns the time from the server's start to its tool list.
async fn calls(bus: &Bus) -> Duration {
    let tool = bus.item::<dyn Tool>("mcp_s_echo").unwrap();
    let cx = ToolCx::new(bus.cx(), std::env::temp_dir());
    let begun = Instant::now();
    for _ in 0..CALLS {
        let approved = cx.approve(tool.clone(), json!({"text": "x"})).await.unwrap();
        tool.call(&approved, &cx).await.unwrap();
    }
    let with = begun.elapsed() / CALLS;
    let (listed, bare) = bare();
    println!("a call, there and back        {with:>10.2?}   {:.2?} of it zk", with.saturating_sub(bare));
    listed
}

/// Measures the tool list and a call of a minimal client: it starts the server, writes to its pipe and reads
/// from it.
fn bare() -> (Duration, Duration) {
    let script = FakeMcpScript { tools: Some(tools()), ..FakeMcpScript::default() };
    let script = serde_json::to_string(&script).unwrap();
    let begun = Instant::now();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(ROLE, script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let mut ask = |id: u32, method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{request}").unwrap();
        line.clear();
        output.read_line(&mut line).unwrap();
    };
    ask(0, "initialize", json!({}));
    ask(1, "tools/list", json!({}));
    let listed = begun.elapsed();
    let begun = Instant::now();
    for id in 2..CALLS + 2 {
        ask(id, "tools/call", json!({"name": "echo", "arguments": {"text": "x"}}));
    }
    let called = begun.elapsed() / CALLS;
    drop(input);
    child.wait().unwrap();
    (listed, called)
}

/// Time from installation to a ready prompt, with 50 servers that never answer and with none: the cost of
/// servers for the start of a run and for the system prompt.
async fn prompts() {
    let script = FakeMcpScript { fault: Some(FakeMcpFault::Silent), ..FakeMcpScript::default() };
    let by_stdio: Vec<ServerConfig> = (0..SILENT).map(|at| config(&format!("s{at}"), &script)).collect();
    let mut by_http = Vec::new();
    for at in 0..SILENT {
        by_http.push(silent_by_http(at).await);
    }
    for (what, servers) in [("no servers", Vec::new()), ("50 by stdio", by_stdio), ("50 by HTTP", by_http)] {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let begun = Instant::now();
            let (bus, _) = bus(servers.clone());
            let start = SessionStart { session_id: None, run_id: RunId::fresh(), messages: 0 };
            bus.cx().emit(start).await.unwrap();
            let sections = bus.items::<dyn PromptSection>();
            for section in &sections {
                section.value.text(&bus.cx()).await.unwrap();
            }
            assert_eq!(sections.len(), 1);
            best = begun.elapsed().min(best);
            bus.close().await;
        }
        println!("prompt ready, {what:<12} silent {best:>8.2?}");
    }
}

/// Server that accepts connections and never answers.
async fn silent_by_http(at: usize) -> ServerConfig {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    ServerConfig::read(&format!("s{at}"), &json!({"url": url})).unwrap()
}
