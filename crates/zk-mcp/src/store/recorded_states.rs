use std::sync::Arc;

use zk_core::kernel::{Bus, Cx};

use super::server_records::ServerRecords;
use crate::{McpBootstrapStart, McpConnect, McpError, McpQuarantine, McpServers};

impl ServerRecords {
    /// Records state changes of the servers on `bus`, if it has any.
    pub fn keep_states(self, bus: &Bus) {
        if bus.service::<McpServers>().is_none() {
            return;
        }
        let records = Arc::new(self);
        let scope = bus.scope("mcp-status");
        let (of_start, of_connect) = (records.clone(), records.clone());
        let (of_error, of_quarantine) = (records.clone(), records);
        scope.on_sync(move |event: &McpBootstrapStart, _: &Cx| drop(of_start.keep_start(&event.server)));
        scope.on_sync(move |event: &McpConnect, _: &Cx| {
            of_connect.keep(&event.server, &format!("ready, {} tools", event.tools.len()));
        });
        scope.on_sync(move |event: &McpError, _: &Cx| {
            // The line names the server already.
            let name = format!("MCP server {} ", event.server);
            let state = event.error.strip_prefix(&name).unwrap_or(&event.error);
            of_error.keep(&event.server, state.strip_prefix("cannot be used: ").unwrap_or(state));
        });
        scope.on_sync(move |event: &McpQuarantine, _: &Cx| {
            let McpQuarantine { server, changes, digest } = event;
            let state = if digest.is_empty() {
                format!("its tools are not known: {}", changes.join("; "))
            } else {
                format!("its tools changed and wait for `zk mcp accept {server} {digest}`")
            };
            of_quarantine.keep(server, &state);
        });
    }
}
