//! Slash commands as prompts of unattended runs.

use tokio_util::sync::CancellationToken;
use zk_agent::Agent;
use zk_core::service::{CommandOutcome, match_command};
use zk_mcp::McpServers;
use zk_skills::{CommandFilesPlugin, Skills, typed_command};

use crate::exit::{Failure, Outcome};
use zk_chat::OWN_COMMANDS;

/// Prefix of the commands that stand for prompts of MCP servers.
const OF_SERVERS: &str = "mcp_";

/// Returns the prompt of the command in `text`, such as a prompt of an MCP server; `None` if it is no
/// command.
///
/// # Errors
/// When the command fails, or shows something to a person in the place of a prompt.
pub(super) async fn prompt_of(
    agent: &Agent,
    text: &str,
    stop: &CancellationToken,
) -> Outcome<Option<String>> {
    let Some(line) = text.strip_prefix('/') else { return Ok(None) };
    let cx = agent.bus().cx().with_stop(stop.clone());
    let is_of_server = line.starts_with(OF_SERVERS);
    if is_of_server && let Some(servers) = cx.service::<McpServers>() {
        let _ = stop.run_until_cancelled(servers.prompts_ready()).await;
    }
    // Command files may not have been searched yet.
    if let Some(files) = cx.service::<CommandFilesPlugin>() {
        files.refresh(&cx).await;
    }
    let name = line.split_whitespace().next().unwrap_or_default();
    // A command of a bundle may be a skill.
    if name.contains(':')
        && let Some(skills) = cx.service::<Skills>()
    {
        // The skills plugin reports skills that cannot be read.
        let _ = skills.resolve(&cx).await;
    }
    let Some((command, args)) = match_command(line, |name| typed_command(name, &cx)) else {
        if OWN_COMMANDS.contains(&name) {
            return Err(only_in_conversations(name));
        }
        if !is_of_server {
            return Ok(None);
        }
        return Err(Failure::usage(format!(
            "there is no command /{name}: its MCP server has no such prompt, or cannot be used (`zk mcp list`)"
        )));
    };
    if name == "redo" {
        return Err(Failure::usage(
            "/redo is for conversations; `zk redo` shows what it would bring back, and `zk redo --yes` does it",
        ));
    }
    if name == "undo" {
        return Err(Failure::usage(
            "/undo is for conversations; `zk undo` shows what it would take back, and `zk undo --yes` does it",
        ));
    }
    match stop.run_until_cancelled(command.run(args, &cx)).await {
        Some(Ok(CommandOutcome::Prompt(prompt))) => Ok(Some(prompt)),
        Some(Ok(
            CommandOutcome::Done | CommandOutcome::Show(_) | CommandOutcome::Quit | CommandOutcome::Reload,
        )) => Err(only_in_conversations(name)),
        Some(Err(error)) => Err(Failure::usage(format!("/{name}: {error}"))),
        // The following run is stopped as well, and reports it.
        None => Ok(None),
    }
}

fn only_in_conversations(name: &str) -> Failure {
    Failure::usage(format!("/{name} is for conversations; `zk` on a terminal begins one"))
}
