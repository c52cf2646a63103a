//! An agent with a tool of its own. A scripted model stands in for a real one.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]
use std::sync::Arc;

use serde_json::json;
use zk_agent::Agent;
use zk_core::model::{AgentError, Approved, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Tool, ToolCx};
use zk_testkit::{Script, ScriptedProvider};

struct Roll(Arc<ToolSpec>);

#[async_trait::async_trait]
impl Tool for Roll {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }
    async fn call(&self, _: &Approved, _: &ToolCx) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("4"))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AgentError> {
    let model = Script::new().turn(|t| t.call("roll", json!({}))).turn(|t| t.text("It is a 4."));
    let tool = Roll(ToolSpec::new("roll", "Rolls a die.", json!({"type": "object"})));
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(model))).tool(Arc::new(tool)).build()?;
    println!("{}", agent.run("Roll a die.")?.wait().await.text);
    Ok(())
}
