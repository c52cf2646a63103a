//! Search for tools that the model is told of only on demand.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use zk_core::kernel::Scope;
use zk_core::model::{Approved, Concurrency, Disclosure, Effects, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, RunTool, RunTools, Tool, ToolCx};

use crate::server::{WeakServers, upgrade_all};

/// Name of the search tool. A host with a tool of this name keeps it, and unlocks tools itself.
pub(crate) const NAME: &str = "tool_search";
/// Prefix of the names of servers' tools.
const PREFIX: &str = "mcp_";
/// Maximum number of results of one search.
const MAX_RESULTS: usize = 20;

/// Registers the search tool for `servers`.
pub(crate) fn register(scope: &Scope, servers: WeakServers) {
    let _ = scope.provide::<dyn Tool>(NAME, Arc::new(ToolSearch::new(servers)));
}

/// Tool that searches the tools of servers, and unlocks the results for the run.
struct ToolSearch {
    spec: Arc<ToolSpec>,
    servers: WeakServers,
}

#[derive(Deserialize)]
struct Args {
    #[serde(default)]
    names: Vec<String>,
    query: Option<String>,
    server: Option<String>,
    limit: Option<usize>,
}

impl ToolSearch {
    fn new(servers: WeakServers) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "names": {
                    "type": "array", "items": { "type": "string" },
                    "description": "Names of tools, as the system prompt lists them",
                },
                "query": { "type": "string", "description": "Words that name or description have" },
                "server": { "type": "string", "description": "Only tools of this MCP server" },
                "limit": { "type": "integer", "minimum": 1, "description": "At most so many tools; 20" },
            },
            "additionalProperties": false,
        });
        let about = "Finds tools of MCP servers by name, words or server, and gives their schemas. A tool can be \
                     called once it was found.";
        Self { spec: ToolSpec::new(NAME, about, schema), servers }
    }

    /// Returns the names of a server's tools. The prefix alone is ambiguous, since one server's name may
    /// begin with another's.
    fn of_server(&self, name: &str) -> Result<BTreeSet<String>, ToolError> {
        let servers: Vec<_> = upgrade_all(&self.servers).collect();
        let Some(server) = servers.iter().find(|server| server.name() == name) else {
            let names: Vec<&str> = servers.iter().map(|server| server.name()).collect();
            return Err(ToolError::invalid(format!(
                "there is no MCP server `{name}`; there are: {}",
                names.join(", ")
            )));
        };
        Ok(server.status().tools.into_iter().collect())
    }
}

impl Args {
    fn finds(&self, tool: &RunTool, of_server: Option<&BTreeSet<String>>) -> bool {
        let text = format!("{} {} {}", tool.name, tool.spec.name, tool.spec.description).to_lowercase();
        let has_words =
            |query: &String| query.to_lowercase().split_whitespace().all(|word| text.contains(word));
        let is_named = self.names.is_empty()
            || self.names.iter().any(|name| *name == tool.spec.name || **name == *tool.name);
        is_named
            && of_server.is_none_or(|names| names.contains(&*tool.name))
            && self.query.as_ref().is_none_or(has_words)
    }
}

/// Whether the model gets a tool only after a search.
pub(crate) fn is_searched(tool: &RunTool) -> bool {
    tool.name.starts_with(PREFIX) && tool.spec.disclosure == Disclosure::Lazy
}

#[async_trait]
impl Tool for ToolSearch {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Shared
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args: Args = call.parse()?;
        let tools = cx.cx.service::<dyn RunTools>();
        let tools = tools.ok_or_else(|| ToolError::failed("tools can be searched in a run only"))?;
        let all: Vec<RunTool> = tools.tools().into_iter().filter(is_searched).collect();
        let of_server = args.server.as_deref().map(|name| self.of_server(name)).transpose()?;
        let found: Vec<&RunTool> = all.iter().filter(|tool| args.finds(tool, of_server.as_ref())).collect();
        let limit = args.limit.unwrap_or(MAX_RESULTS).max(args.names.len());
        let mut lines = Vec::new();
        for tool in found.iter().take(limit) {
            tools.unlock(&tool.name).map_err(|error| ToolError::failed(error.to_string()))?;
            let spec = &tool.spec;
            let line = json!({ "name": spec.name, "description": spec.description, "schema": spec.schema });
            // Escaped so that no text in a schema can end the envelope.
            lines.push(format!("<tool>{}</tool>", line.to_string().replace('<', "\\u003c")));
        }
        if found.len() > limit {
            lines.push(format!("and {} more; search for less", found.len() - limit));
        }
        if lines.is_empty() {
            lines.push(format!("nothing found among {} tools; try fewer words", all.len()));
        }
        Ok(ToolOutput::text(lines.join("\n")))
    }
}
