use std::sync::Arc;
use std::time::Duration;

use zk_core::kernel::Bus;
use zk_exec::{Environment, ProcessExec, Supervision};
use zk_mcp::{McpServers, ServerConfig};

use crate::app::Workplace;
use crate::exit::{Failure, Outcome};
use crate::mcp::{build_plugin, server_records};
use crate::settings::Settings;

/// Started MCP servers on their own bus, for a single command.
pub(super) struct Session {
    pub(super) bus: Bus,
    pub(super) servers: Arc<McpServers>,
    /// Longest time for all servers to start.
    pub(super) longest: Duration,
    exec: Arc<ProcessExec>,
}

impl Session {
    /// Starts servers, and waits until each is ready or failed.
    pub(super) async fn start(
        work: &Workplace,
        settings: &Settings,
        servers: Vec<ServerConfig>,
    ) -> Outcome<Self> {
        let children = Environment::filtered(work.machine.env.without_secrets());
        let exec = Arc::new(ProcessExec::supervised(children, Supervision::of_this_program()));
        let longest = servers.iter().map(|server| server.start_cap).max().unwrap_or_default();
        let bus = Bus::new();
        bus.install(&build_plugin(work, settings, servers).exec(exec.clone())).map_err(Failure::failed)?;
        if let Some(dir) = work.machine.dirs.mcp() {
            server_records(work, settings, dir).yield_to_conversations().keep_states(&bus);
        }
        let servers =
            bus.service::<McpServers>().ok_or_else(|| Failure::failed("MCP servers are not there"))?;
        let longest = longest + Duration::from_secs(1);
        servers.warm_up(longest).await;
        Ok(Self { bus, servers, longest, exec })
    }

    pub(super) async fn close(self) {
        self.bus.close().await;
        self.exec.close().await;
    }
}
