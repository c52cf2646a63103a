//! An agent with a tool made from a function, and a number as its structured answer. A scripted model
//! replaces a real one.
//!
//! `cargo run -p zk-harness-agent --example one_tool --features typed`
#![expect(clippy::print_stdout, reason = "an example shows its answer")]
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use zk_agent::Agent;
use zk_core::model::AgentError;
use zk_core::service::{FnTool, ToolCx};
use zk_testkit::{Script, ScriptedProvider};

#[derive(Deserialize, JsonSchema)]
struct Roll {
    /// Number of dice.
    dice: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AgentError> {
    let roll = FnTool::new("roll", "Rolls dice.", |roll: Roll, _: ToolCx| async move {
        Ok(vec!["4"; roll.dice as usize].join(", "))
    });
    let model = Script::new()
        .turn(|t| t.call("roll", json!({ "dice": 2 })))
        .turn(|t| t.call("__output__", json!({ "value": 8 })));
    let agent =
        Agent::builder(Arc::new(ScriptedProvider::new(model))).tool(Arc::new(roll.reads_only())).build()?;
    let sum: u32 = agent.run_as("Roll two dice. What is their sum?").await?;
    println!("{sum}");
    Ok(())
}
