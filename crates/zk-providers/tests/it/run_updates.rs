//! The typed updates of a run whose requests go to a server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use zk_agent::{Agent, RetryPolicy, RunUpdate};
use zk_core::model::{Approved, ToolError, ToolOutput, ToolSpec, Usage};
use zk_core::service::{RunStatus, Tool, ToolCx};
use zk_providers::{Compat, CompatProfile, Connection};
use zk_testkit::{FakeServer, Fault, Script};

fn used(output: u64) -> Usage {
    Usage { input: 10, output, ..Usage::default() }
}

struct Weather(Arc<ToolSpec>);

#[async_trait]
impl Tool for Weather {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, call: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::from(format!("Rain in {}.", call.args()["place"])))
    }
}

#[tokio::test]
async fn a_run_against_a_server_is_read_as_typed_updates() {
    let script = Script::new()
        .turn(|t| t.usage(used(7)).chunks(["I ", "look."]).call("weather", json!({"place": "Lagos"})))
        .turn(|t| t.usage(used(5)).text("It rains."));
    let server = FakeServer::start(script).expect("a server");
    server.fault_on(1, Fault::ServerError);
    let connection = Connection::at(server.openai_url());
    let provider = Compat::new(connection, CompatProfile::default()).expect("a provider");
    let schema = json!({"type": "object", "properties": {"place": {"type": "string"}}});
    let weather = Arc::new(Weather(ToolSpec::new("weather", "Tells the weather.", schema)));
    let short = Duration::from_millis(1);
    let policy = RetryPolicy { base: short, floor: short, ..RetryPolicy::default() };
    let agent = Agent::builder(Arc::new(provider))
        .unguarded()
        .model_id("any")
        .retry(policy)
        .tool(weather)
        .build()
        .expect("an agent");
    let mut run = agent.run("How is the weather?").expect("a run");
    let mut updates = run.updates();
    let (mut text, mut seen) = (String::new(), Vec::new());
    while let Some(update) = updates.next().await {
        match update {
            RunUpdate::Text(piece) => text.push_str(&piece),
            RunUpdate::Retry(notice) => seen.push(format!("retry {}", notice.attempt)),
            RunUpdate::TurnEnded { turn, usage, error: None, .. } => {
                seen.push(format!("turn {turn}: {}", usage.output));
            }
            RunUpdate::ToolStarted { tool, args, .. } => seen.push(format!("{tool} {args}")),
            RunUpdate::ToolEnded { result, .. } => seen.push(result.content.to_text()),
            RunUpdate::Ended { status: RunStatus::Completed, stats, .. } => {
                seen.push(format!("{} turns", stats.turns));
            }
            other => panic!("{other:?}"),
        }
    }
    run.wait().await.result.expect("a whole run");
    assert_eq!(text, "I look.It rains.");
    assert_eq!(
        seen,
        [
            "retry 1",
            "turn 1: 7",
            r#"weather {"place":"Lagos"}"#,
            r#"Rain in "Lagos"."#,
            "turn 2: 5",
            "2 turns"
        ]
    );
}
