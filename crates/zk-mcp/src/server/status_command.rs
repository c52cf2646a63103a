//! The command `/mcp`: shows the servers of the conversation.

use async_trait::async_trait;
use zk_core::kernel::{BoxError, Cx};
use zk_core::service::{Command, CommandOutcome, visible_line};

use crate::server::servers::McpServers;
use crate::server::status::{ServerState, ServerStatus};

/// Subcommands of `zk mcp` that this command does not have.
const SUBCOMMANDS_OF_PROGRAM: [&str; 8] =
    ["accept", "add", "call", "login", "logout", "logs", "remove", "tools"];

/// Shows the state of all servers, or of one, without a request to them.
pub(crate) struct StatusCommand(pub(crate) McpServers);

#[async_trait]
impl Command for StatusCommand {
    fn name(&self) -> &str {
        "mcp"
    }

    fn help(&self) -> &str {
        "MCP servers, how they are, and how many tools they have; /mcp NAME shows one"
    }

    async fn run(&self, args: &str, _: &Cx) -> Result<CommandOutcome, BoxError> {
        Ok(CommandOutcome::Show(show(args, &self.0.status())))
    }
}

/// Returns the answer to `/mcp` with these arguments.
fn show(args: &str, servers: &[ServerStatus]) -> String {
    let lines =
        |of: &[&ServerStatus]| of.iter().map(|status| status_line(status)).collect::<Vec<_>>().join("\n");
    let words: Vec<&str> = args.split_whitespace().collect();
    match words.as_slice() {
        [] => lines(&servers.iter().collect::<Vec<_>>()),
        [name] if servers.iter().any(|status| status.server == *name) => {
            lines(&servers.iter().filter(|status| status.server == *name).collect::<Vec<_>>())
        }
        [first, ..] if SUBCOMMANDS_OF_PROGRAM.contains(first) => format!(
            "/mcp only shows servers: run `zk mcp {}` in a terminal, then /reload here",
            visible_line(&words.join(" "))
        ),
        _ => {
            let names: Vec<&str> = servers.iter().map(|status| &*status.server).collect();
            format!(
                "there is no MCP server `{}`; there are: {}",
                visible_line(&words.join(" ")),
                names.join(", ")
            )
        }
    }
}

fn status_line(status: &ServerStatus) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_the_status_command_are_answered() {
        let status = |server: &str| ServerStatus {
            server: server.to_owned(),
            transport: "http",
            state: ServerState::Closed,
            tools: Vec::new(),
        };
        let servers = [status("mail"), status("far")];
        assert_eq!(show("", &servers).lines().count(), 2);
        assert!(show(" far ", &servers).starts_with("far "));
        assert!(show("login far", &servers).contains("run `zk mcp login far` in a terminal"));
        assert_eq!(show("nobody", &servers), "there is no MCP server `nobody`; there are: mail, far");
    }
}
