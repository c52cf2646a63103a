use std::sync::Arc;
use std::time::Duration;

use zk_compaction::{LazyCounter, report, sent_of};
use zk_core::kernel::Bus;
use zk_core::model::Message;
use zk_mcp::{McpServers, ServerStatus};
use zk_session::{load_live, read_live_matching};

use crate::app::{AppContext, Machine, runtime};
use crate::commands::{extend, print};
use crate::compose::{self, HostOptions};
use crate::exit::{Exit, Failure, Outcome};
use crate::prompt;
use crate::sessions::{Session, require_id, store, store_failure};
use crate::settings::Settings;
use zk_chat::context_lines;

/// Prints the content of the context window: of every request, or of the next request of a session.
pub(crate) fn context(app: &AppContext, id: Option<&str>, json: bool) -> Outcome<Exit> {
    let report = runtime()?.block_on(async {
        let sent = match id {
            Some(id) => stored_messages(&app.work.machine, id).await?,
            None => Vec::new(),
        };
        let bus = compose::bus(app, &Session::default(), HostOptions::unattended(&app.settings)).await?;
        compose::install_sections(&app.work, &app.settings, &bus)?;
        wait_for_servers(&app.work.machine, &app.settings, &bus).await;
        let counter = LazyCounter::default().loaded();
        let mut report = report(&sent, &counter, &bus.cx()).await;
        report.add_system(&prompt::own_prompt(&app.settings), &counter);
        bus.close().await;
        Ok::<_, Failure>(report)
    })?;
    if json {
        let line = serde_json::to_string(&report).map_err(Failure::failed)?;
        return print(&app.work.machine, &[line]);
    }
    print(&app.work.machine, &context_lines(&report))
}

/// Waits for the start of MCP servers, since their tools are part of every request, and reports failed ones.
pub(super) async fn wait_for_servers(machine: &Machine, settings: &Settings, bus: &Bus) {
    let Some(servers) = bus.service::<McpServers>() else { return };
    let longest = settings.mcp_servers().0.iter().map(|server| server.start_cap).max();
    servers.warm_up(longest.unwrap_or_default() + Duration::from_secs(1)).await;
    let problem = |status: ServerStatus| extend::mcp::tools::unusable_reason(&status.server, &status.state);
    for lines in servers.status().into_iter().filter_map(problem) {
        machine.notices.show(&format!("warning: without the tools of a server: {}", lines.join("\n")));
    }
}

/// Reads the messages of a session that the next request would send.
async fn stored_messages(machine: &Machine, id: &str) -> Outcome<Vec<Arc<Message>>> {
    let live =
        read_live_matching(&store(machine)?, require_id(id, "`zk context`")?).await.map_err(store_failure)?;
    Ok(sent_of(&live.entries, &load_live(&live).messages))
}
