//! `/mcp`: the servers of the running conversation.

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{Command, CommandOutcome, visible_line};

use crate::servers::McpServers;
use crate::status::{ServerState, ServerStatus};

/// Shows how each server is. Nothing is asked of them.
pub(crate) struct StatusCommand(pub(crate) McpServers);

#[async_trait]
impl Command for StatusCommand {
    fn name(&self) -> &str {
        "mcp"
    }

    fn help(&self) -> &str {
        "MCP servers, how they are, and how many tools they have"
    }

    async fn run(&self, _: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        let lines: Vec<String> = self.0.status().iter().map(line).collect();
        Ok(CommandOutcome::Show(lines.join("\n")))
    }
}

fn line(status: &ServerStatus) -> String {
    let state = match &status.state {
        ServerState::Starting => "is being started".to_owned(),
        ServerState::Ready { protocol } => format!("ready, {} tools, {protocol}", status.tools.len()),
        ServerState::Quarantined { changes, digest } if digest.is_empty() => changes.join("; "),
        ServerState::Quarantined { changes, digest } => {
            let server = &status.server;
            format!("{} changes of its tools wait for `zk mcp accept {server} {digest}`", changes.len())
        }
        ServerState::Failed { error } => error.clone(),
        ServerState::Closed => "ended".to_owned(),
    };
    visible_line(&format!("{:<16} {:<6} {state}", status.server, status.transport))
}
