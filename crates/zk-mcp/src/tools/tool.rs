use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use zk_core::model::{Approved, Concurrency, Disclosure, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Tool, ToolCx, call_line, visible_line};

use crate::client::CallRequest;
use crate::config::server_config::ServerConfig;
use crate::server::{Server, ServerRef};
use crate::tools::sanitize::{clean_schema, clean_text};

/// A tool of a server, as a tool of the agent.
pub(crate) struct McpTool {
    server: Arc<dyn ServerRef>,
    /// Name of the tool on the server.
    name: String,
    /// Title of the tool for people, if it differs from the name.
    title: Option<String>,
    spec: Arc<ToolSpec>,
    /// Whether the person declared that calls have no side effects, so that they may run concurrently and be
    /// repeated.
    reads: bool,
}

/// Returns the specification of a tool for the model.
pub(crate) fn spec_of(name: &str, tool: &rmcp::model::Tool, disclosure: Disclosure) -> Arc<ToolSpec> {
    let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
    let mut schema = clean_schema(&Value::Object(Map::clone(&tool.input_schema)));
    if let Value::Object(schema) = &mut schema {
        schema.entry("type").or_insert_with(|| json!("object"));
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    let spec = ToolSpec::new(name, clean_text(description), schema);
    Arc::new(ToolSpec { disclosure, ..ToolSpec::clone(&spec) })
}

/// Length limit of a title in characters.
const MAX_TITLE_CHARS: usize = 60;

/// Returns the title of a tool, `title` or `annotations.title`, if it differs from the name.
fn title_of(tool: &rmcp::model::Tool) -> Option<String> {
    let annotated = tool.annotations.as_ref().and_then(|annotations| annotations.title.as_deref());
    let title = visible_line(&clean_text(tool.title.as_deref().or(annotated)?));
    let title: String = title.trim().chars().take(MAX_TITLE_CHARS).collect();
    (!title.is_empty() && title != tool.name).then_some(title)
}

impl McpTool {
    pub(crate) fn new(server: Arc<Server>, tool: &rmcp::model::Tool, spec: Arc<ToolSpec>) -> Self {
        let reads = server.config.read_only.iter().any(|name| *name == tool.name);
        Self { server, name: tool.name.to_string(), title: title_of(tool), spec, reads }
    }

    /// Returns a copy of the tool with another disclosure.
    pub(crate) fn disclosed(&self, disclosure: Disclosure) -> Self {
        let spec = Arc::new(ToolSpec { disclosure, ..ToolSpec::clone(&self.spec) });
        let (name, title) = (self.name.clone(), self.title.clone());
        Self { server: self.server.clone(), name, title, spec, reads: self.reads }
    }

    /// Whether the server's new definition and specification `spec` are those of this tool.
    pub(crate) fn is_unchanged_by(&self, tool: &rmcp::model::Tool, spec: &ToolSpec) -> bool {
        self.name == tool.name && self.title == title_of(tool) && *self.spec == *spec
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let args = call.args().as_object().cloned().unwrap_or_default();
        let server = self.server.clone().server();
        let ServerConfig { request_idle, tool_idle, .. } = &server.config;
        let idle = *tool_idle.get(&self.name).unwrap_or(request_idle);
        let result = server.request(&cx.cx, self.reads, |connection| {
            let progress = cx.progress.clone();
            let request = CallRequest {
                tool: &self.name,
                args: args.clone(),
                idle,
                progress: Arc::new(move |text| progress.show(text)),
                cx: &cx.cx,
            };
            async move { connection.call(request).await }
        });
        let result = result.await.map_err(|error| server.tool_error(error, self.reads))?;
        if result.is_error {
            return Err(ToolError::failed(result.output.content.to_text()));
        }
        Ok(result.output)
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        if self.reads { Concurrency::Shared } else { Concurrency::Exclusive }
    }

    fn title(&self) -> String {
        self.title.clone().unwrap_or_else(|| self.spec.name.clone())
    }

    fn server(&self) -> Option<String> {
        Some(self.server.clone().server().name().to_owned())
    }

    /// Has the name for the model, by which the call is shown before it runs; a server may give any title to a
    /// tool.
    fn summary(&self, args: &Value) -> String {
        call_line(&self.spec.name, args)
    }
}
