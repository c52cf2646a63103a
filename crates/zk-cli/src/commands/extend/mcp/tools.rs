use serde_json::Value;
use zk_core::model::{Block, ToolContent};
use zk_core::service::{Tool, ToolCx, visible_line, visible_lines};
use zk_mcp::ServerState;

use super::super::{print, print_words};
use super::selected_servers;
use super::session::Session;
use crate::app::Workplace;
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;

pub(super) async fn list_tools(work: &Workplace, settings: &Settings, server: Option<&str>) -> Outcome<Exit> {
    let session = Session::start(work, settings, selected_servers(settings, server)?).await?;
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    let mut failed = false;
    for status in session.servers.status() {
        if let Some(problem) = unusable_reason(&status.server, &status.state) {
            lines.extend(problem);
            failed = true;
        }
        for name in status.tools {
            let tool = session.bus.item::<dyn Tool>(&name);
            let about = tool.map_or(String::new(), |tool| tool.spec().description.clone());
            rows.push((name, visible_line(about.lines().next().unwrap_or_default())));
        }
    }
    lines.extend(table(&rows));
    session.close().await;
    if lines.is_empty() {
        lines.push("no MCP server has a tool".to_owned());
    }
    let exit = print_words(&work.machine, &lines)?;
    Ok(if failed { Exit::Failed } else { exit })
}

/// Maximum width of the first column in a table of tools.
const MAX_NAME_COLUMNS: usize = 40;

/// Formats names and descriptions in two columns.
fn table(rows: &[(String, String)]) -> Vec<String> {
    let widest =
        rows.iter().map(|(name, _)| name.chars().count()).filter(|wide| *wide <= MAX_NAME_COLUMNS).max();
    let width = widest.unwrap_or_default();
    rows.iter().map(|(name, about)| format!("{name:<width$}  {about}").trim_end().to_owned()).collect()
}

/// Returns the reason why a server cannot be used, in lines.
pub(in crate::commands) fn unusable_reason(server: &str, state: &ServerState) -> Option<Vec<String>> {
    match state {
        ServerState::Ready { .. } => None,
        ServerState::Starting => Some(vec![format!("MCP server {server} is still being started")]),
        ServerState::Closed => Some(vec![format!("MCP server {server} has ended")]),
        ServerState::Failed { error } => Some(visible_lines(error)),
        ServerState::Quarantined { changes, digest } => {
            let mut lines =
                vec![format!("the tools of MCP server {server} are not those that were accepted:")];
            lines.extend(
                changes.iter().flat_map(|change| visible_lines(change)).map(|line| format!("  {line}")),
            );
            if !digest.is_empty() {
                lines.push(format!("`zk mcp accept {server} {digest}` accepts exactly that"));
            }
            Some(lines)
        }
    }
}

pub(super) async fn call(
    work: &Workplace,
    settings: &Settings,
    server: &str,
    tool: &str,
    args: Option<&str>,
) -> Outcome<Exit> {
    let args: Value = match args {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| Failure::usage(format!("the arguments are no JSON: {error}")))?,
        None => Value::Object(serde_json::Map::new()),
    };
    let session = Session::start(work, settings, selected_servers(settings, Some(server))?).await?;
    let called = run_call(work, &session, server, tool, args).await;
    session.close().await;
    let (lines, exit) = called?;
    print(&work.machine, &lines)?;
    Ok(exit)
}

pub(super) async fn run_call(
    work: &Workplace,
    session: &Session,
    server: &str,
    tool: &str,
    args: Value,
) -> Outcome<(Vec<String>, Exit)> {
    let status = session.servers.status().into_iter().next();
    if let Some(lines) = status.and_then(|status| unusable_reason(server, &status.state)) {
        return Ok((lines, Exit::Failed));
    }
    let item = |name: &str| session.bus.item::<dyn Tool>(name);
    let Some(found) = item(tool).or_else(|| item(&format!("mcp_{server}_{tool}"))) else {
        let text = format!("MCP server {server} has no tool `{tool}`; `zk mcp tools {server}` lists them");
        return Err(Failure::usage(text));
    };
    let cx = ToolCx::new(session.bus.cx(), &work.cwd);
    let end = cx.run(found, args).await.map_err(Failure::failed)?;
    Ok(match end.into_output() {
        Ok(output) => (content_lines(&output.content), Exit::Done),
        Err(error) => (visible_lines(&error.message), Exit::Failed),
    })
}

pub(in crate::commands) fn content_lines(content: &ToolContent) -> Vec<String> {
    match content {
        ToolContent::Text(text) => visible_lines(text),
        ToolContent::Blocks(blocks) => blocks
            .iter()
            .flat_map(|block| match block {
                Block::Image(image) => vec![format!("[image of type {}]", visible_line(&image.media_type))],
                other => visible_lines(other.as_text().unwrap_or("[content that cannot be shown here]")),
            })
            .collect(),
    }
}

pub(super) async fn accept(
    work: &Workplace,
    settings: &Settings,
    server: &str,
    digest: Option<&str>,
) -> Outcome<Exit> {
    let session = Session::start(work, settings, selected_servers(settings, Some(server))?).await?;
    let state = session.servers.status().into_iter().next().map(|status| status.state);
    let done = match (&state, digest) {
        (Some(ServerState::Quarantined { .. }), Some(digest)) => {
            match session.servers.accept(server, digest).await {
                Ok(()) => Ok(vec![format!("the tools of MCP server {server} are accepted as they are now")]),
                Err(why) => Err(Failure::failed(why)),
            }
        }
        (Some(state), _) => Ok(unusable_reason(server, state)
            .unwrap_or_else(|| vec![format!("MCP server {server} has no change that waits to be accepted")])),
        (None, _) => Err(Failure::failed(format!("MCP server {server} is not there"))),
    };
    session.close().await;
    print_words(&work.machine, &done?)
}
