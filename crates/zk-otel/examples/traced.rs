//! A run with a scripted model whose spans go to the collector at an address: `cargo run -p zk-harness-otel --example traced --
//! http://127.0.0.1:4318`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use zk_agent::Agent;
use zk_auth::Http;
use zk_otel::{OtelConfig, OtelPlugin, OtelSettings, Telemetry};
use zk_testkit::{Script, ScriptedProvider};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example says what happens")]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = std::env::args().nth(1);
    let settings = OtelSettings { enabled: Some(true), endpoint, ..OtelSettings::default() };
    let Some(config) = OtelConfig::read(&settings, |_| None)? else { return Ok(()) };
    let telemetry = Telemetry::start(config, Http::new(), |notice| eprintln!("{notice}"))?;

    let model = ScriptedProvider::new(Script::new().turn(|turn| turn.text("Hello.")));
    let agent = Agent::builder(Arc::new(model)).plugin(OtelPlugin::new(&telemetry)).build()?;
    let outcome = agent.run("Say hello.")?.wait().await;
    let is_sent = telemetry.flush(Duration::from_secs(2)).await;
    println!("{} Its spans were {}.", outcome.text, if is_sent { "sent" } else { "not sent" });
    Ok(())
}
