//! Tools of the host: those that its MCP servers have, within its own protocol, and those by which a model asks a person.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use zk_core::kernel::{BoxError, Cx, Plugin, Scope};
use zk_core::model::{Approved, Block, Effects, Image, ToolContent, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{CallPlace, ContextMode, ContextProducer, Tool, ToolCx};

use super::args::{Given, HostRule, MAX_TOOL_NAME_CHARS, PLAN, sdk_servers};
use super::host::Host;

/// Version of the Model Context Protocol that the host's servers are asked for.
const MCP_VERSION: &str = "2025-11-25";

/// Text for the model in plan mode.
const PLANNING: &str = "plan mode: calls that change something are refused until the user approves a plan. Find out what \
    there is to know, then show the plan with `ExitPlanMode`";

/// Tools of the host's servers.
pub(super) struct HostTools {
    tools: Vec<Arc<HostTool>>,
}

struct HostTool {
    host: Arc<Host>,
    server: String,
    name: String,
    spec: Arc<ToolSpec>,
}

impl HostTools {
    /// Asks the host for the tools of its servers. A server that fails has none, and the host gets a notice.
    pub(super) async fn find(host: &Arc<Host>, given: &Given) -> Self {
        let first = host.first.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let manifests = first.get("sdkMcpServerManifests").cloned().unwrap_or_default();
        let refused: Vec<HostRule> = given.disallowed.iter().map(|rule| HostRule::read(rule)).collect();
        let mut tools = Vec::new();
        host.known().servers.clear();
        for server in sdk_servers(given, &first) {
            let listed = match manifests.pointer(&format!("/{}/toolsListResult", escape_pointer(&server))) {
                Some(listed) => Ok(listed.clone()),
                None => host.list_tools(&server).await,
            };
            let listed = match listed {
                Ok(listed) => listed,
                Err(why) => {
                    host.warn_host(&format!("the MCP server {server} of the host gives no tools: {why}"));
                    continue;
                }
            };
            let listed = listed.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
            host.known().servers.push((server.clone(), listed.clone().into()));
            let of_server = listed.iter().filter_map(|tool| HostTool::read(host, &server, tool));
            let allowed = of_server.filter(|tool| {
                let outward = format!("mcp__{server}__{}", tool.name);
                !refused.iter().any(|rule| rule.covers(&outward, &Value::Null))
            });
            tools.extend(allowed.map(Arc::new));
        }
        Self { tools }
    }
}

fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

impl Plugin for HostTools {
    fn name(&self) -> &'static str {
        "agent-sdk-tools"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        for tool in &self.tools {
            scope.provide::<dyn Tool>(&tool.spec.name, tool.clone())?;
        }
        Ok(())
    }
}

impl HostTool {
    fn read(host: &Arc<Host>, server: &str, tool: &Value) -> Option<Self> {
        let name = tool.get("name")?.as_str()?.to_owned();
        let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
        let usable =
            |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        let own: String =
            format!("mcp_{server}_{name}").chars().map(usable).take(MAX_TOOL_NAME_CHARS).collect();
        host.names.learn(&own, &format!("mcp__{server}__{name}"));
        let schema =
            tool.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        let spec = ToolSpec::new(own, text("description"), schema);
        Some(Self { host: host.clone(), server: server.to_owned(), name, spec })
    }
}

#[async_trait]
impl Tool for HostTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn server(&self) -> Option<String> {
        Some(self.server.clone())
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let params = json!({
            "name": self.name,
            "arguments": call.args(),
            "_meta": {"claudecode/toolUseId": cx.call_id},
        });
        let asked = self.host.ask_server(&self.server, "tools/call", params);
        let result = tokio::select! {
            result = asked => result,
            () = cx.cx.stop_token().cancelled() => Err("the run was stopped".to_owned()),
        };
        let result = result.map_err(|why| ToolError::failed(format!("{}: {why}", self.server)))?;
        let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let blocks: Vec<Block> = blocks.iter().map(to_block).collect();
        let content = match blocks.as_slice() {
            [Block::Text(only)] => ToolContent::Text(only.text.clone()),
            _ => ToolContent::Blocks(blocks),
        };
        if result.get("isError") == Some(&Value::Bool(true)) {
            return Err(ToolError::failed(content.to_text()));
        }
        Ok(ToolOutput { content, display: None, details: result.get("structuredContent").cloned() })
    }
}

fn to_block(content: &Value) -> Block {
    let text = |key: &str| content.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "text" => Block::text(text("text")),
        "image" => Block::Image(Image::new(text("mimeType"), text("data"))),
        _ => Block::text(content.to_string()),
    }
}

impl Host {
    async fn list_tools(&self, server: &str) -> Result<Value, String> {
        let hello = json!({
            "protocolVersion": MCP_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "zk", "version": self.options.version},
        });
        self.ask_server(server, "initialize", hello).await?;
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let telling = json!({"subtype": "mcp_message", "server_name": server, "message": told});
        self.channel.ask(telling).await.map_err(|error| error.to_string())?;
        self.ask_server(server, "tools/list", json!({})).await
    }

    /// Sends a request to a server of the host, and returns its result.
    pub(super) async fn ask_server(
        &self,
        server: &str,
        method: &str,
        params: Value,
    ) -> Result<Value, String> {
        let message = json!({"jsonrpc": "2.0", "id": fastrand::u32(..), "method": method, "params": params});
        let request = json!({"subtype": "mcp_message", "server_name": server, "message": message});
        let answer = self.channel.ask(request).await.map_err(|error| error.to_string())?;
        let response = answer.get("mcp_response").cloned().unwrap_or_default();
        if let Some(error) = response.get("error") {
            let why = error.get("message").and_then(Value::as_str).unwrap_or("an error without words");
            return Err(why.to_owned());
        }
        response.get("result").cloned().ok_or_else(|| "its answer has no result".to_owned())
    }
}

/// Plugin with the tools that ask the host: `AskUserQuestion` and `ExitPlanMode`.
pub(super) struct AskingTools(pub(super) Arc<Host>);

struct AskingTool {
    host: Arc<Host>,
    spec: Arc<ToolSpec>,
}

impl Plugin for AskingTools {
    fn name(&self) -> &'static str {
        "agent-sdk-asking"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let text = json!({"type": "string"});
        let option = json!({"type": "object", "properties": {"label": text, "description": text}, "required": ["label"]});
        let question = json!({
            "type": "object",
            "properties": {
                "question": text,
                "header": text,
                "multiSelect": {"type": "boolean"},
                "options": {"type": "array", "items": option},
            },
            "required": ["question", "options"],
        });
        let questions = json!({
            "type": "object",
            "properties": {"questions": {"type": "array", "items": question}},
            "required": ["questions"],
        });
        let plan = json!({"type": "object", "properties": {"plan": text}});
        for spec in [
            ToolSpec::new("AskUserQuestion", "Ask the user one or more questions with options.", questions),
            ToolSpec::new(
                "ExitPlanMode",
                "Show the user your plan, and leave plan mode if it is accepted.",
                plan,
            ),
        ] {
            let name = spec.name.clone();
            scope.provide::<dyn Tool>(&name, Arc::new(AskingTool { host: self.0.clone(), spec }))?;
        }
        scope.provide::<dyn ContextProducer>("agent-sdk-plan", Arc::new(Planning(self.0.clone())))?;
        Ok(())
    }
}

/// Producer of the text about plan mode, for each request in this mode.
struct Planning(Arc<Host>);

#[async_trait]
impl ContextProducer for Planning {
    fn mode(&self) -> ContextMode {
        ContextMode::PerRequest
    }

    async fn text(&self, _: &Cx) -> Result<Option<String>, BoxError> {
        Ok((self.0.known().mode == PLAN).then(|| PLANNING.to_owned()))
    }
}

#[async_trait]
impl Tool for AskingTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effects(&self, _: &Value, _: &CallPlace) -> Effects {
        Effects::none()
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let name = &self.spec.name;
        self.host.send_state("requires_action");
        let request = json!({
            "subtype": "can_use_tool",
            "tool_name": name,
            "display_name": name,
            "input": call.args(),
            "tool_use_id": cx.call_id,
            "requires_user_interaction": true,
        });
        let answer = tokio::select! {
            answer = self.host.channel.ask(request) => answer.map_err(|error| error.to_string()),
            () = cx.cx.stop_token().cancelled() => Err("the run was stopped".to_owned()),
        };
        self.host.send_state("running");
        let answer = answer.map_err(ToolError::failed)?;
        let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("behavior") != "allow" {
            let words = text("message");
            return Err(ToolError::failed(if words.is_empty() { "the user did not answer" } else { words }));
        }
        if name == "ExitPlanMode" {
            if let Some(updates) = answer.get("updatedPermissions") {
                self.host.update_permissions(updates);
            }
            // Approval of a plan ends plan mode, unless the answer has set another mode already.
            if self.host.known().mode == PLAN {
                let before = self.host.known().asking.before_plan.take();
                self.host.set_mode(before.as_deref().unwrap_or("default")).map_err(ToolError::failed)?;
            }
            return Ok(ToolOutput::text("The user has approved your plan. You can begin to carry it out."));
        }
        let answers = answer.pointer("/updatedInput/answers").and_then(Value::as_object);
        let said = answers.into_iter().flatten().map(|(question, answer)| {
            let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
            format!("\"{question}\"=\"{answer}\"")
        });
        let said: Vec<String> = said.collect();
        Ok(ToolOutput::text(if said.is_empty() {
            "The user gave no answers.".to_owned()
        } else {
            format!("The user has answered: {}. Go on with these answers.", said.join(", "))
        }))
    }
}
