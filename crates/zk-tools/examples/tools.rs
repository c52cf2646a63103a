//! Calls two tools without any agent or model: `cargo run -p zk-harness-tools --example tools`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use serde_json::json;
use zk_core::kernel::Bus;
use zk_core::service::{Tool, ToolCx};
use zk_exec::{Environment, LocalPlugin, WorkspaceFiles};
use zk_tools::{ToolsOptions, ToolsPlugin};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let cwd = std::env::current_dir()?;
    let bus = Bus::new();
    let env = Environment::filtered([("PATH", "/usr/bin:/bin")]);
    bus.install(&LocalPlugin::new(env, WorkspaceFiles::new([&cwd])?))?;
    bus.install(&ToolsPlugin::new(ToolsOptions::default()))?;
    for (name, args) in
        [("glob", json!({ "pattern": "*.toml" })), ("shell", json!({ "command": "echo \"I am in $PWD\"" }))]
    {
        let tool = bus.item::<dyn Tool>(name).ok_or("no such tool")?;
        println!("{}", tool.summary(&args));
        let cx = ToolCx::new(bus.cx(), &cwd);
        let call = cx.approve(tool.clone(), args).await?;
        println!("{}\n", tool.call(&call, &cx).await?.content.to_text());
    }
    bus.close().await;
    Ok(())
}
