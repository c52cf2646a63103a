//! An agent with real tools, read-only: `cargo run -p zk-harness --example embed -- KEY "What is this project?"`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use zk::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(key), Some(prompt)) = (args.next(), args.next()) else {
        println!("usage: embed KEY PROMPT");
        return Ok(());
    };
    let provider = Anthropic::new(Anthropic::connection().key(key), AnthropicOptions::default())?;
    let environment = Environment::filtered([("PATH", "/usr/bin:/bin")]);
    let agent = Agent::builder(Arc::new(provider))
        .plugin(LocalPlugin::new(environment, WorkspaceFiles::new(["."])?))
        .plugin(ToolsPlugin::new(ToolsOptions::default()))
        .plugin(PermissionGate::new(Mode::Ask))
        .build()?;
    let outcome = agent.run(prompt)?.wait().await;
    outcome.result?;
    println!("{}", outcome.text);
    Ok(())
}
