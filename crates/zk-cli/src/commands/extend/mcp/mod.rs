//! `zk mcp`: the servers that are set up, their tools, and their logs.

mod edit;
mod run_tool;
mod serve;
mod served_run;
mod served_tools;
mod session;
pub(super) mod settings_text;
mod sign_in;
pub(in crate::commands) mod tools;

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};

use zk_core::service::{visible_line, visible_lines};
use zk_exec::own_files;
use zk_mcp::ServerConfig;

use super::{print, print_words};
use crate::app::{AppContext, Workplace, runtime};
use crate::args::actions::McpAction;
use crate::exit::{Exit, Failure, Outcome};
use crate::mcp::server_records;
use crate::settings::Settings;
use tools::{accept, call, list_tools};

/// Maximum size of the printed end of a log, in bytes.
const MAX_PRINTED_LOG_BYTES: u64 = 64 << 10;

/// Runs a subcommand of `zk mcp`.
pub(crate) fn mcp(app: &AppContext, action: McpAction) -> Outcome<Exit> {
    match action {
        McpAction::List => list(&app.work, &app.settings),
        McpAction::Tools { server } => {
            runtime()?.block_on(list_tools(&app.work, &app.settings, server.as_deref()))
        }
        McpAction::Call { server, tool, args } => {
            runtime()?.block_on(call(&app.work, &app.settings, &server, &tool, args.as_deref()))
        }
        McpAction::Accept { server, digest } => {
            runtime()?.block_on(accept(&app.work, &app.settings, &server, digest.as_deref()))
        }
        McpAction::Logs { server } => logs(&app.work, &app.settings, &server),
        McpAction::Login { server, browser } => {
            runtime()?.block_on(sign_in::login(&app.work, &app.settings, &server, browser))
        }
        McpAction::Logout { server } => {
            runtime()?.block_on(sign_in::logout(&app.work, &app.settings, &server))
        }
        McpAction::Serve { http } => serve::serve(app, http),
        McpAction::Add(add) => edit::add(&app.work.machine, add),
        McpAction::Remove { server } => edit::remove(&app.work.machine, &server),
    }
}

/// Lists the servers with their last recorded state. No server is started.
fn list(work: &Workplace, settings: &Settings) -> Outcome<Exit> {
    let (servers, wrong) = settings.mcp_servers();
    let records = work.machine.dirs.mcp().map(|dir| server_records(work, settings, dir));
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
    let project = settings.untrusted_mcp_servers();
    let hint = "not trusted, so it does not start (`zk trust` shows it, `zk trust add` trusts it)";
    lines.extend(project.map(|server| row(server, hint)));
    lines.extend(wrong.iter().map(ToString::to_string));
    if lines.is_empty() {
        lines.push("no MCP server is set up: `zk mcp add NAME -- COMMAND` adds one".to_owned());
    }
    print_words(&work.machine, &lines)
}

/// Returns all servers of the settings, or the named one.
fn selected_servers(settings: &Settings, name: Option<&str>) -> Outcome<Vec<ServerConfig>> {
    let (mut servers, wrong) = settings.mcp_servers();
    if let Some(error) = wrong.first() {
        return Err(Failure::usage(error.to_string()));
    }
    let Some(name) = name else { return Ok(servers) };
    servers.retain(|server| server.name == name);
    if let Some(server) = servers.first_mut() {
        // A server that is named explicitly is used even if it is disabled.
        server.enabled = true;
        return Ok(servers);
    }
    if settings.untrusted_mcp_servers().any(|server| server.name == name) {
        return Err(Failure::usage(format!(
            "MCP server {name} is the project's and not trusted; `zk trust` shows it, `zk trust add` trusts it"
        )));
    }
    Err(Failure::usage(format!("there is no MCP server `{name}`; `zk mcp list` lists those there are")))
}

fn logs(work: &Workplace, settings: &Settings, server: &str) -> Outcome<Exit> {
    selected_servers(settings, Some(server))?;
    let path = work.machine.dirs.mcp().map(|dir| server_records(work, settings, dir).log_path(server));
    let Some(path) = path.filter(|path| path.exists()) else {
        return print_words(
            &work.machine,
            &[format!("MCP server {server} has printed nothing to standard error yet")],
        );
    };
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = own_files::open(&path, OpenOptions::new().read(true))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_PRINTED_LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(MAX_PRINTED_LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes =
        read().map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))?;
    print(&work.machine, &visible_lines(String::from_utf8_lossy(&bytes).trim_end()))
}
