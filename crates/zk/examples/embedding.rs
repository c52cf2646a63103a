//! An embedder's first program, with a scripted model: `cargo run -p zk-harness --example embedding`

#![expect(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "shows results; JSON values have no bounds"
)]

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use zk::prelude::*;
use zk_testkit::{Script, ScriptedProvider};

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// Number of the order, from 1
    number: u32,
}

#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error("there is no order {0}; the newest one is 7")]
    Unknown(u32),
}

impl From<OrderError> for ToolError {
    fn from(error: OrderError) -> Self {
        Self::failed(error.to_string())
    }
}

fn state_of(order: u32) -> Result<&'static str, OrderError> {
    if order <= 7 { Ok("sent") } else { Err(OrderError::Unknown(order)) }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Verdict {
    /// Whether the customer is right
    is_right: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let provider = Arc::new(ScriptedProvider::new(script()));
    let store = MemoryStore::new();

    let order = FnTool::new("order", "Tells the state of an order.", |order: Order, _: ToolCx| async move {
        Ok(state_of(order.number)?)
    });
    let refund = FnTool::new("refund", "Pays an order back.", |order: Order, _: ToolCx| async move {
        Ok(format!("order {} is paid back", order.number))
    });
    let reader =
        AgentDefinition::new("reader", "Reads what a customer wrote.", "You read, and say what you read.");
    let agent = Agent::builder(provider)
        .tool(Arc::new(order.reads_only()))
        .tool(Arc::new(refund))
        .plugin(allow_if(|call| async move { call.tool == "refund" && call.args["number"] == 7 }))
        .sub_agent(reader)
        .resume(continue_conversation(&store, "/srv/shop").await?)
        .build()?;

    let mut run = agent.run("Where is order 9? And pay order 7 back.")?;
    let mut text = run.text();
    while let Some(piece) = text.next().await {
        print!("{piece}");
    }
    let outcome = run.wait().await;
    match outcome.result {
        Ok(()) => {
            println!("\ncost: {:?} US dollars, {} turns", outcome.stats.known_cost(), outcome.stats.turns)
        }
        Err(AgentError::TurnLimit { .. }) => println!("\nit took too many turns"),
        Err(error) => return Err(error.into()),
    }

    let mut run = agent.run(RunOptions::from("Is the customer right?").answering::<Verdict>())?;
    let mut updates = run.updates();
    while let Some(update) = updates.next().await {
        match update {
            RunUpdate::Text(text) => print!("{text}"),
            RunUpdate::ToolStarted { summary, .. } => println!("[{summary}]"),
            RunUpdate::ToolEnded { tool, result, .. } if result.is_error => println!("{tool} failed"),
            _ => {}
        }
    }
    let verdict: Verdict = run.wait().await.answer()?;
    println!("the customer is right: {}", verdict.is_right);
    agent.close().await;
    Ok(())
}

fn script() -> Script {
    Script::new()
        .turn(|turn| turn.call("order", json!({ "number": 9 })).call("refund", json!({ "number": 7 })))
        .turn(|turn| turn.call("spawn", json!({ "task": "Read the letter.", "agent": "reader" })))
        .turn(|turn| turn.text("A letter about order 9."))
        .turn(|turn| turn.text("There is no order 9. Order 7 is paid back."))
        .turn(|turn| turn.call("__output__", json!({ "is_right": false })))
}
