//! A model without tool calls uses a tool: `cargo run -p zk-harness-protocols --example inline`.

use std::sync::Arc;

use zk_agent::Agent;
use zk_protocols::{ProtocolSettings, ProtocolsPlugin, ToolProtocol};
use zk_testkit::{Script, ScriptedProvider};

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let call = "```tool_call-3f9a\n{\"name\": \"load_tools\", \"arguments\": {}}\n```";
    let script =
        Script::new().turn(|turn| turn.text(call)).turn(|turn| turn.text("There is no such tool here."));
    let settings = ProtocolSettings { protocol: Some(ToolProtocol::Inline), ..ProtocolSettings::default() };
    let agent = Agent::builder(Arc::new(ScriptedProvider::new(script)))
        .plugin(ProtocolsPlugin::new(settings).with_mark("3f9a"))
        .unguarded()
        .build()?;
    let outcome = agent.run("Load your tools.")?.wait().await;
    outcome.result?;
    for message in agent.history() {
        println!("{:?}: {:?}", message.role, message.content);
    }
    println!("{}", outcome.text);
    Ok(())
}
