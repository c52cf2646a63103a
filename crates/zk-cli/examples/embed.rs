//! An agent in a program of your own: `cargo run -p zk-cli --example embed -- KEY "what to do"`.

use std::sync::Arc;

use zk_agent::Agent;
use zk_exec::{Environment, LocalPlugin, WorkspacePaths};
use zk_providers::{Anthropic, AnthropicOptions};
use zk_tools::{PermissionGate, PermissionMode, ToolsOptions, ToolsPlugin};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(key), Some(prompt)) = (args.next(), args.next()) else { return Err("KEY PROMPT".into()) };
    let here = std::env::current_dir()?;
    let agent = Agent::builder(Arc::new(Anthropic::new(AnthropicOptions::with_key(key))?))
        .plugin(LocalPlugin::new(
            Environment::filtered([("PATH", "/usr/bin:/bin")]),
            WorkspacePaths::new([&here])?,
        ))
        .plugin(ToolsPlugin::new(ToolsOptions::default()))
        .plugin(PermissionGate::new(PermissionMode::Ask))
        .cwd(here)
        .build()?;
    let outcome = agent.run(prompt)?.wait().await;
    outcome.result?;
    Ok(std::io::Write::write_all(&mut std::io::stdout(), outcome.text.as_bytes())?)
}
