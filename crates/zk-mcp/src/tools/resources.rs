//! Two tools for the resources of all servers: one lists them, one reads a resource.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;
use zk_core::kernel::Cx;
use zk_core::model::{Approved, Concurrency, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Tool, ToolCx};

use crate::client::resource_output;
use crate::server::{Server, WeakServers, upgrade_all};
use crate::tools::sanitize::clean_text;

/// Names of the tools that list and read resources.
pub(crate) const LIST: &str = "mcp_list_resources";
pub(crate) const READ: &str = "mcp_read_resource";

/// Maximum number of resources that are listed.
const MAX_LISTED: usize = 500;
/// Time limit for a server to list its resources.
const LISTING_TIME_LIMIT: Duration = Duration::from_secs(20);

/// Tool that lists the resources of servers.
pub(crate) struct ListResources {
    spec: Arc<ToolSpec>,
    servers: WeakServers,
}

/// Tool that reads a resource.
pub(crate) struct ReadResource {
    spec: Arc<ToolSpec>,
    servers: WeakServers,
}

#[derive(Deserialize)]
struct ListArgs {
    server: Option<String>,
}

#[derive(Deserialize)]
struct ReadArgs {
    server: String,
    uri: String,
}

impl ListResources {
    pub(crate) fn new(servers: WeakServers) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "server": { "type": "string", "description": "Only the resources of this server" },
            },
            "additionalProperties": false,
        });
        let spec = ToolSpec::new(
            LIST,
            "Lists the resources of MCP servers and the templates of such: their addresses and what they are.",
            schema,
        );
        Self { spec, servers }
    }
}

impl ReadResource {
    pub(crate) fn new(servers: WeakServers) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "server": { "type": "string", "description": "The server" },
                "uri": { "type": "string", "description": "The address of the resource" },
            },
            "required": ["server", "uri"],
            "additionalProperties": false,
        });
        let about = format!("Reads a resource of an MCP server. {LIST} lists them.");
        Self { spec: ToolSpec::new(READ, about, schema), servers }
    }
}

#[async_trait]
impl Tool for ListResources {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn concurrency(&self, _: &serde_json::Value) -> Concurrency {
        Concurrency::Shared
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let ListArgs { server } = call.parse()?;
        let servers = upgrade_all(&self.servers);
        let chosen: Vec<Arc<Server>> =
            servers.filter(|one| server.as_deref().is_none_or(|name| name == one.name())).collect();
        if let (Some(name), []) = (&server, &*chosen) {
            return Err(ToolError::invalid(format!("there is no MCP server {name}")));
        }
        let lists = join_all(chosen.iter().map(|server| list(server, &cx.cx)));
        let lists = tokio::select! {
            lists = lists => lists,
            () = cx.cx.stop_token().cancelled() => {
                return Err(ToolError::new(zk_core::model::ToolErrorKind::Aborted, "stopped"));
            }
        };
        Ok(ToolOutput::text(lists.concat().trim_end().to_owned()))
    }
}

/// Lists the resources of one server as lines, or the reason for an empty list.
async fn list(server: &Arc<Server>, cx: &Cx) -> String {
    let name = server.name();
    if server.live().borrow().connection.as_ref().is_some_and(|connection| !connection.has_resources()) {
        return String::new();
    }
    let listing = server.request(cx, true, |connection| async move {
        Ok((connection.resources().await?, connection.resource_templates().await?))
    });
    match tokio::time::timeout(LISTING_TIME_LIMIT, listing).await {
        Ok(Ok((resources, templates))) => {
            let more = (resources.len() + templates.len()).saturating_sub(MAX_LISTED);
            let line = |uri: &str, what: &str, kind: Option<&str>, about: Option<&str>| {
                let kind = kind.map_or(String::new(), |kind| format!(" ({kind})"));
                let about = about.unwrap_or_default();
                clean_text(&format!("{name}: {uri} {what}{kind}: {about}")).replace('\n', " ") + "\n"
            };
            let resources = resources.iter().map(|one| {
                let about = one.description.as_deref().or(one.title.as_deref());
                line(&one.uri, &one.name, one.mime_type.as_deref(), about)
            });
            let templates = templates.iter().map(|one| {
                let about = one.description.as_deref().or(one.title.as_deref());
                let what = format!("{} (a template: fill in what is in braces)", one.name);
                line(&one.uri_template, &what, one.mime_type.as_deref(), about)
            });
            let mut lines: String = resources.chain(templates).take(MAX_LISTED).collect();
            if more > 0 {
                lines.push_str(&format!("{name}: and {more} more\n"));
            }
            lines
        }
        Ok(Err(error)) => format!("{name}: cannot be listed: {error}\n"),
        Err(_) => format!("{name}: did not list them within {} s\n", LISTING_TIME_LIMIT.as_secs()),
    }
}

#[async_trait]
impl Tool for ReadResource {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn concurrency(&self, _: &serde_json::Value) -> Concurrency {
        Concurrency::Shared
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let ReadArgs { server, uri } = call.parse()?;
        let found = upgrade_all(&self.servers).find(|one| one.name() == server);
        let found = found.ok_or_else(|| ToolError::invalid(format!("there is no MCP server {server}")))?;
        let idle = found.config.request_idle;
        let uri = uri.as_str();
        let read = found.request(&cx.cx, true, |connection| async move {
            connection.read_resource(uri, idle, &cx.cx).await
        });
        read.await.map(resource_output).map_err(|error| found.tool_error(error, true))
    }
}
