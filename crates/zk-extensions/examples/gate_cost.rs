//! Prints the time that a gate in another language adds to a call:
//! `cargo run -p zk-harness-extensions --example gate_cost -- python3 GATE.py`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use zk_core::events::ToolGate;
use zk_core::kernel::Bus;
use zk_core::model::{CallId, CallRef};
use zk_core::service::{CallPlace, Exec};
use zk_exec::{Environment, ProcessExec};
use zk_extensions::{Extension, ExtensionConfig};

/// Number of calls.
const CALLS: usize = 3_000;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what happens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let command: Vec<String> = std::env::args().skip(1).collect();
    if command.is_empty() {
        println!("usage: gate_cost COMMAND ARGUMENT…");
        return Ok(());
    }
    let bus = Bus::new();
    let exec = ProcessExec::new(Environment::filtered([("PATH", "/usr/local/bin:/usr/bin:/bin")]));
    bus.scope("local").provide_service::<dyn Exec>(Arc::new(exec));
    let config = ExtensionConfig::new("gate", command);
    let gate = Extension::new(config, std::env::current_dir()?);
    bus.install(&gate)?;
    gate.handle().ready().await?;
    let cx = bus.cx();
    let call = CallRef {
        turn_id: "t".into(),
        call_id: CallId::fresh(),
        display_name: "shell".into(),
        name: "shell".into(),
    };
    let call = Arc::new(call);
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..CALLS {
        let place = CallPlace { cx: cx.clone(), cwd: "/".into() };
        let event = ToolGate::new(call.clone(), json!({ "command": "cargo test" }), None, place);
        let began = Instant::now();
        event.pass(&cx).await?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let at = |part: usize| times.get(CALLS * part / 100).copied().unwrap_or_default();
    println!("median {:?}, 90 % {:?}, 99 % {:?}", at(50), at(90), at(99));
    bus.close().await;
    Ok(())
}
