//! Reads the servers of a `.mcp.json`, and shows the state of one that cannot be started.

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::time::Duration;

use zk_core::kernel::Bus;
use zk_mcp::{McpPlugin, McpServers, ServerConfig};

const FILE: &str = r#"{"mcpServers": {
    "docs": {"command": "docs-server", "args": ["--root", "${ROOT:-/srv/docs}"]}
}}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let read = ServerConfig::read_file(FILE.as_bytes())?;
    let servers: Vec<ServerConfig> = read.into_iter().collect::<Result<_, _>>()?;
    let servers = servers.into_iter().map(|server| server.expanded(&|_| None));
    let bus = Bus::new();
    // This bus has no service that starts programs, which the server's state reports.
    bus.install(&McpPlugin::new(servers, "/srv"))?;
    let servers = bus.service::<McpServers>().ok_or("the plugin is not there")?;
    servers.warm_up(Duration::from_secs(5)).await;
    println!("{:?}", servers.status());
    bus.close().await;
    Ok(())
}
