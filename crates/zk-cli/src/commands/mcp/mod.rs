//! `zk mcp`: the servers that are set up, their tools, and their logs.

mod edit;
mod run_tool;
mod serve;
mod sign_in;

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};

use serde_json::Value;
use zk_core::model::{Block, ToolContent};
use zk_core::service::{Tool, ToolCx, visible_line, visible_lines};
use zk_mcp::{ServerConfig, ServerState};

use super::print;
use crate::app::{AppContext, runtime};
use crate::args::actions::McpAction;
use crate::exit::{Exit, Failure, Outcome};
use crate::mcp::{Session, server_records};
use crate::own_files;

/// Most that is printed of a log, in bytes.
const LOG: u64 = 64 << 10;

/// Does what was asked about MCP servers.
pub(crate) fn mcp(app: &AppContext, action: McpAction) -> Outcome<Exit> {
    match action {
        McpAction::List => list(app),
        McpAction::Tools { server } => runtime()?.block_on(tools(app, server.as_deref())),
        McpAction::Call { server, tool, args } => {
            runtime()?.block_on(call(app, &server, &tool, args.as_deref()))
        }
        McpAction::Accept { server, digest } => runtime()?.block_on(accept(app, &server, digest.as_deref())),
        McpAction::Logs { server } => logs(app, &server),
        McpAction::Login { server, browser } => runtime()?.block_on(sign_in::login(app, &server, browser)),
        McpAction::Logout { server } => runtime()?.block_on(sign_in::logout(app, &server)),
        McpAction::Serve { http } => serve::serve(app, http),
        McpAction::Add(add) => edit::add(app, add),
        McpAction::Remove { server } => edit::remove(app, &server),
    }
}

/// The servers with their state in the program that used them last. None is started for that.
fn list(app: &AppContext) -> Outcome<Exit> {
    let (servers, wrong) = app.settings.mcp_servers();
    let records = app.dirs.mcp().map(|dir| server_records(app, dir));
    let row = |server: &ServerConfig, state: &str| {
        let ServerConfig { name, transport, .. } = server;
        let how = visible_line(&server.summary());
        format!("{name:<16} {:<6} {state}  {how}", transport.as_str())
    };
    let mut lines: Vec<String> = servers
        .iter()
        .map(|server| {
            let known = records.as_ref().and_then(|records| records.known(&server.name));
            let known = known.map_or("not used yet".to_owned(), |known| visible_line(&known.describe()));
            row(server, if server.enabled { &known } else { "disabled" })
        })
        .collect();
    let project = app.settings.untrusted_mcp_servers();
    let hint = "not trusted, so it does not start (`zk trust` shows it, `zk trust add` trusts it)";
    lines.extend(project.map(|server| row(server, hint)));
    lines.extend(wrong.iter().map(ToString::to_string));
    if lines.is_empty() {
        lines.push("no MCP server is set up: `zk mcp add NAME -- COMMAND` adds one".to_owned());
    }
    print(app, &lines)
}

/// The servers of the settings, or the one of this name.
fn chosen(app: &AppContext, name: Option<&str>) -> Outcome<Vec<ServerConfig>> {
    let (mut servers, wrong) = app.settings.mcp_servers();
    if let Some(error) = wrong.first() {
        return Err(Failure::usage(error.to_string()));
    }
    let Some(name) = name else { return Ok(servers) };
    servers.retain(|server| server.name == name);
    if let Some(server) = servers.first_mut() {
        // Whoever names it wants it.
        server.enabled = true;
        return Ok(servers);
    }
    if app.settings.untrusted_mcp_servers().any(|server| server.name == name) {
        return Err(Failure::usage(format!(
            "MCP server {name} is the project's and not trusted; `zk trust` shows it, `zk trust add` trusts it"
        )));
    }
    Err(Failure::usage(format!("there is no MCP server `{name}`; `zk mcp list` lists those there are")))
}

async fn tools(app: &AppContext, server: Option<&str>) -> Outcome<Exit> {
    let session = Session::start(app, chosen(app, server)?).await?;
    let mut lines = Vec::new();
    let mut failed = false;
    for status in session.servers.status() {
        if let Some(problem) = problem(&status.server, &status.state) {
            lines.extend(problem);
            failed = true;
        }
        for name in status.tools {
            let tool = session.bus.item::<dyn Tool>(&name);
            let about = tool.map_or(String::new(), |tool| tool.spec().description.clone());
            lines.push(format!("{name:<40} {}", visible_line(about.lines().next().unwrap_or_default())));
        }
    }
    session.close().await;
    if lines.is_empty() {
        lines.push("no MCP server has a tool".to_owned());
    }
    let exit = print(app, &lines)?;
    Ok(if failed { Exit::Failed } else { exit })
}

/// Returns the reason why a server cannot be used, in lines.
pub(super) fn problem(server: &str, state: &ServerState) -> Option<Vec<String>> {
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

async fn call(app: &AppContext, server: &str, tool: &str, args: Option<&str>) -> Outcome<Exit> {
    let args: Value = match args {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| Failure::usage(format!("the arguments are no JSON: {error}")))?,
        None => Value::Object(serde_json::Map::new()),
    };
    let session = Session::start(app, chosen(app, Some(server))?).await?;
    let called = called(app, &session, server, tool, args).await;
    session.close().await;
    let (lines, exit) = called?;
    print(app, &lines)?;
    Ok(exit)
}

async fn called(
    app: &AppContext,
    session: &Session,
    server: &str,
    tool: &str,
    args: Value,
) -> Outcome<(Vec<String>, Exit)> {
    let status = session.servers.status().into_iter().next();
    if let Some(lines) = status.and_then(|status| problem(server, &status.state)) {
        return Ok((lines, Exit::Failed));
    }
    let item = |name: &str| session.bus.item::<dyn Tool>(name);
    let Some(found) = item(tool).or_else(|| item(&format!("mcp_{server}_{tool}"))) else {
        let text = format!("MCP server {server} has no tool `{tool}`; `zk mcp tools {server}` lists them");
        return Err(Failure::usage(text));
    };
    let cx = ToolCx::new(session.bus.cx(), &app.cwd);
    let end = cx.run(found, args).await.map_err(Failure::failed)?;
    Ok(match end.into_output() {
        Ok(output) => (content_lines(&output.content), Exit::Done),
        Err(error) => (visible_lines(&error.message), Exit::Failed),
    })
}

fn content_lines(content: &ToolContent) -> Vec<String> {
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

async fn accept(app: &AppContext, server: &str, digest: Option<&str>) -> Outcome<Exit> {
    let session = Session::start(app, chosen(app, Some(server))?).await?;
    let state = session.servers.status().into_iter().next().map(|status| status.state);
    let done = match (&state, digest) {
        (Some(ServerState::Quarantined { .. }), Some(digest)) => {
            match session.servers.accept(server, digest).await {
                Ok(()) => Ok(vec![format!("the tools of MCP server {server} are accepted as they are now")]),
                Err(why) => Err(Failure::failed(why)),
            }
        }
        (Some(state), _) => Ok(problem(server, state)
            .unwrap_or_else(|| vec![format!("MCP server {server} has no change that waits to be accepted")])),
        (None, _) => Err(Failure::failed(format!("MCP server {server} is not there"))),
    };
    session.close().await;
    print(app, &done?)
}

fn logs(app: &AppContext, server: &str) -> Outcome<Exit> {
    chosen(app, Some(server))?;
    let path = app.dirs.mcp().map(|dir| server_records(app, dir).log_path(server));
    let Some(path) = path.filter(|path| path.exists()) else {
        return print(app, &[format!("MCP server {server} has printed nothing to standard error yet")]);
    };
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = own_files::open(&path, OpenOptions::new().read(true))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG)))?;
        let mut bytes = Vec::new();
        file.take(LOG).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes =
        read().map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))?;
    print(app, &visible_lines(String::from_utf8_lossy(&bytes).trim_end()))
}
