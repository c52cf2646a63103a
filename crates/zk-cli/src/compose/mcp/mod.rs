//! MCP servers of the program: their plugin, and the records of their states.

mod skills;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zk_auth::FileStore;
use zk_core::kernel::{Bus, Plugin};
use zk_core::service::{Exec, visible_lines};
use zk_exec::{Environment, LocalStateFiles};
use zk_mcp::{
    ApprovedScripts, FileEras, FilePins, McpPlugin, ServerConfig, ServerRecords, ServerTransport, ServerTrust,
};

use crate::app::Workplace;
use crate::sandbox;
use crate::settings::Settings;

pub(crate) use skills::offer_skills;

/// Longest wait for servers in an unattended run, whose first request may need their tools.
const WAIT: Duration = Duration::from_secs(10);

/// Returns the plugin of the configured and trusted servers, if there are any. They run with `own` on this
/// machine, outside of the sandbox of the model's commands.
pub(crate) fn plugin(
    work: &Workplace,
    settings: &Settings,
    own: Arc<dyn Exec>,
    is_attended: bool,
) -> Option<Arc<dyn Plugin>> {
    let (servers, wrong) = settings.mcp_servers();
    for error in wrong {
        work.machine.notices.show(&format!("warning: {error}"));
    }
    if servers.is_empty() {
        return None;
    }
    let usual = if is_attended { Duration::ZERO } else { WAIT };
    let wait = settings.mcp.wait().unwrap_or(usual);
    let notices = work.machine.notices.clone();
    let plugin = build_plugin(work, settings, servers)
        .exec(own)
        .wait_for_servers(wait)
        .telling_at_once(is_attended)
        .on_notice(move |text| {
            // The text comes from a server and must not control the terminal.
            notices.show(&visible_lines(text).join("\n"));
        });
    Some(Arc::new(plugin))
}

/// Returns the plugin with the program's file services. Variables in the servers' definitions are expanded.
pub(crate) fn build_plugin(work: &Workplace, settings: &Settings, servers: Vec<ServerConfig>) -> McpPlugin {
    let lookup = |name: &str| work.machine.env.text(name).map(str::to_owned);
    let (env, files) = (work.machine.env.clone(), Arc::new(work.machine.host_files.clone()));
    let variables = move |name: &str| env.text(name).map(str::to_owned);
    let scripts = settings.mcp_scripts();
    let scripts = ApprovedScripts::new(scripts, &servers, work.project.clone(), variables, files);
    let servers: Vec<ServerConfig> = servers.into_iter().map(|server| server.expanded(&lookup)).collect();
    let sandbox = sandbox_of(work, settings, &servers);
    for secret in servers.iter().flat_map(ServerConfig::secrets) {
        work.machine.redactor.learn(secret);
    }
    let roots = std::iter::once(work.project.clone()).chain(work.add_dirs.iter().cloned());
    let mut plugin =
        McpPlugin::new(servers, &work.project).roots(roots).check_starts(move |server| scripts.check(server));
    if let Some(sandbox) = sandbox {
        plugin = plugin.sandbox(sandbox);
    }
    if let Some(disclosure) = settings.mcp.disclosure {
        plugin = plugin.disclosure(disclosure);
    }
    if let Some(tokens) = settings.mcp.eager_tokens {
        plugin = plugin.eager_tokens(tokens);
    }
    if let Some(credentials) = work.machine.dirs.credentials() {
        // A store apart from that of providers, which `zk auth` lists.
        let store = FileStore::new(credentials.with_file_name("mcp-credentials.json"));
        plugin = plugin.credentials(Arc::new(store));
    }
    if let Some(dir) = work.machine.dirs.mcp() {
        let files = Arc::new(LocalStateFiles::new(work.machine.host_files.clone()));
        plugin = plugin.eras(Arc::new(FileEras::new(dir.join("eras"), files.clone())));
        plugin = plugin.pins(Arc::new(FilePins::new(dir.join("accepted"), files)));
        let records = server_records(work, settings, dir);
        plugin = plugin.on_log(move |server, bytes| records.log(server, bytes));
    }
    plugin
}

/// Returns the sandbox of sandboxed servers, if there are any. Its settings do not depend on the context of
/// commands.
fn sandbox_of(work: &Workplace, settings: &Settings, servers: &[ServerConfig]) -> Option<Arc<dyn Exec>> {
    let is_sandboxed = |server: &ServerConfig| {
        server.enabled
            && server.trust == ServerTrust::Sandboxed
            && matches!(server.transport, ServerTransport::Stdio { .. })
    };
    if !servers.iter().any(is_sandboxed) {
        return None;
    }
    match sandbox::start(work, settings, Environment::filtered(work.machine.env.without_secrets())) {
        Ok(exec) => Some(Arc::new(exec)),
        Err(failure) => {
            work.machine
                .notices
                .show(&format!("warning: MCP servers with trust = \"sandboxed\": {}", failure.message));
            None
        }
    }
}

/// Records the states of servers for `zk mcp list`.
pub(crate) fn record(work: &Workplace, settings: &Settings, bus: &Bus) {
    if let Some(dir) = work.machine.dirs.mcp() {
        server_records(work, settings, dir).keep_states(bus);
    }
}

/// Creates the records of the configured servers in `dir`.
pub(crate) fn server_records(work: &Workplace, settings: &Settings, dir: PathBuf) -> ServerRecords {
    let (servers, _) = settings.mcp_servers();
    let files = Arc::new(LocalStateFiles::new(work.machine.host_files.clone()));
    ServerRecords::new(dir, &work.project, &servers, work.machine.redactor.clone(), files)
}
