//! Ratio of a run with traces to one without: `cargo bench -p zk-harness-otel`.
//!
//! The bar: 100,000 deltas with traces ≤ 1.2 × without.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "figures are printed")]

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use zk_agent::Agent;
use zk_auth::Http;
use zk_otel::{OtelConfig, OtelPlugin, OtelSettings, Telemetry};
use zk_testkit::{IdleTool, Script, ScriptedProvider};

const DELTAS: usize = 100_000;
const CALLS: usize = 200;
const ROUNDS: usize = 7;

/// A collector that takes everything and reads nothing of it.
fn collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut bytes = [0; 1 << 16];
                let _ = stream.read(&mut bytes);
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            });
        }
    });
    address
}

fn deltas() -> Script {
    Script::new().turn(|turn| turn.chunks(vec!["word "; DELTAS]))
}

fn calls() -> Script {
    (0..CALLS)
        .fold(Script::new(), |script, _| script.turn(|turn| turn.call("nothing", json!({}))))
        .turn(|turn| turn.text("x"))
}

async fn run(script: Script, telemetry: Option<&Telemetry>) -> Duration {
    let builder = Agent::builder(Arc::new(ScriptedProvider::new(script)))
        .tool(Arc::new(IdleTool::new("nothing")))
        .unguarded();
    let builder = match telemetry {
        Some(telemetry) => builder.plugin(OtelPlugin::new(telemetry)),
        None => builder,
    };
    let agent = builder.build().unwrap();
    let began = Instant::now();
    black_box(agent.run("go").unwrap().wait().await);
    began.elapsed()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let endpoint = collector();
    let variable = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| endpoint.clone());
    let config = OtelConfig::read(&OtelSettings::default(), variable).unwrap().unwrap();
    let telemetry = Telemetry::start(config, Http::new(), |notice| eprintln!("{notice}")).unwrap();
    for (what, script) in [("100,000 deltas", deltas as fn() -> Script), ("200 turns with a call", calls)] {
        let (mut off, mut on) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            off = off.min(runtime.block_on(run(script(), None)));
            on = on.min(runtime.block_on(run(script(), Some(&telemetry))));
        }
        println!("{what}: off {off:?}, on {on:?}, ratio {:.2}", on.as_secs_f64() / off.as_secs_f64());
    }
}
