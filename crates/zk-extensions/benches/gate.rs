//! Cost of a gate in Python beyond a gate that nobody has: `cargo bench -p zk-harness-extensions`.
//!
//! The bars: a gate in Python ≤ 0.3 ms a call beyond its own time; an extension without one costs a call nothing.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]
#![expect(clippy::print_stdout, reason = "figures are printed")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use zk_agent::Agent;
use zk_core::kernel::Bus;
use zk_core::service::Exec;
use zk_exec::{Environment, ProcessExec};
use zk_extensions::{Extension, ExtensionConfig};
use zk_testkit::{IdleTool, Script, ScriptedProvider};

const CALLS: u32 = 500;
const ROUNDS: usize = 7;

/// Gate that lets every call through, and adds up the time that it has a message in hand.
const GATE: &str = r#"
import json, sys, time
def say(value):
    sys.stdout.write(json.dumps(value) + "\n"); sys.stdout.flush()
spent = calls = 0
for line in sys.stdin:
    began = time.perf_counter_ns()
    message = json.loads(line)
    if message.get("method") == "hello":
        result = {"protocol": "1.0", "name": "x", "version": "1", "register": {"asks": ASKS}}
        say({"jsonrpc": "2.0", "id": message["id"], "result": result})
    elif "id" in message:
        say({"jsonrpc": "2.0", "id": message["id"], "result": None})
        spent, calls = spent + time.perf_counter_ns() - began, calls + 1
        if calls % CALLS == 0:
            open("spent", "w").write(str(spent))
"#;

/// Bus on which an extension in Python asks for these events; without an extension for `None`.
async fn bus(dir: &Path, asks: Option<&str>) -> Bus {
    let bus = Bus::new();
    let environment = Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    bus.scope("local").provide_service::<dyn Exec>(Arc::new(ProcessExec::new(environment)));
    if let Some(asks) = asks {
        std::fs::write(dir.join("gate.py"), GATE.replace("ASKS", asks).replace("CALLS", &CALLS.to_string()))
            .unwrap();
        let extension = Extension::new(ExtensionConfig::new("x", ["python3", "gate.py"]), dir);
        bus.install(&extension).unwrap();
        extension.handle().ready().await.unwrap();
    }
    bus
}

async fn run(bus: &Bus) -> Duration {
    let script =
        (0..CALLS).fold(Script::new(), |script, _| script.turn(|turn| turn.call("nothing", json!({}))));
    let model = ScriptedProvider::new(script.turn(|turn| turn.text("x")));
    let agent =
        Agent::builder(Arc::new(model)).bus(bus.clone()).tool(Arc::new(IdleTool::new("nothing"))).unguarded();
    let agent = agent.build().unwrap();
    let began = Instant::now();
    black_box(agent.run("go").unwrap().wait().await).result.unwrap();
    let took = began.elapsed();
    agent.close().await;
    took
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let gate = Some(r#"[{"event": "tool:gate"}]"#);
    let mut figures = Vec::new();
    for asks in [None, Some("[]"), gate] {
        let dir = tempfile::tempdir().unwrap();
        figures.push(runtime.block_on(async {
            let bus = bus(dir.path(), asks).await;
            let mut best = Duration::MAX;
            for _ in 0..ROUNDS {
                best = best.min(run(&bus).await);
            }
            bus.close().await;
            best
        }));
        let spent = std::fs::read_to_string(dir.path().join("spent")).ok();
        if let Some(spent) = spent.and_then(|spent| spent.parse::<u64>().ok()) {
            let calls = u64::from(CALLS) * u64::try_from(ROUNDS).unwrap();
            println!("own time of the gate: {:?} a call", Duration::from_nanos(spent / calls));
        }
    }
    if let [without, idle, gate] = figures[..] {
        println!("without an extension: {:?} a call", without / CALLS);
        println!("with one that asks for no call: {:.2} ×", idle.as_secs_f64() / without.as_secs_f64());
        println!("with a gate in Python: {:?} more a call", gate.saturating_sub(without) / CALLS);
    }
}
