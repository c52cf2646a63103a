//! Requests of the host, beside the first one.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use zk_core::service::Conversation;

use super::host::{Host, PROTOCOL_VERSION};
use super::wire::{id_of_uuid, now};

impl Host {
    /// Answers a request of the host.
    pub(super) async fn control(self: &Arc<Self>, id: &str, request: &Value) {
        let answer = self.respond(request).await;
        self.channel.answer(id, answer);
        // The answer comes before the run ends, so that the host knows its request was received.
        if request.get("subtype").is_some_and(|subtype| subtype == "interrupt")
            && let Some(hosted) = self.present()
        {
            hosted.conversation().cancel("the host interrupted");
        }
    }

    async fn respond(self: &Arc<Self>, request: &Value) -> Result<Value, String> {
        let text = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default();
        let subtype = text("subtype");
        if subtype == "interrupt" {
            self.channel.cancel_requests("can_use_tool");
            return Ok(json!({"still_queued": []}));
        }
        let hosted = self.conversation().await.ok_or("there is no conversation")?;
        match subtype {
            "initialize" => Ok(self.initialize_reply().await),
            "set_permission_mode" => self.set_mode(text("mode")).map(|()| json!({"mode": text("mode")})),
            "set_model" => self.set_model(request.get("model").and_then(Value::as_str)).await,
            "set_max_thinking_tokens" => {
                let tokens = request.get("max_thinking_tokens").and_then(Value::as_u64);
                let mut thinking = hosted.agent().thinking();
                thinking.budget =
                    tokens.and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0);
                hosted.agent().set_thinking(thinking).await.map_err(|error| error.to_string())?;
                Ok(json!({}))
            }
            "mcp_status" => Ok(self.mcp_status()),
            "mcp_reconnect" | "mcp_toggle" => {
                let name = text("serverName");
                let known = self.known().servers.iter().any(|(server, _)| server == name);
                match (known, subtype) {
                    (false, _) => Err(format!("Server not found: {name}")),
                    (true, "mcp_reconnect") => Ok(json!({})),
                    (true, _) => Err(format!(
                        "The server {name} stays as it is: zk switches no server within a conversation. Start one without it"
                    )),
                }
            }
            "mcp_set_servers" => {
                let servers = request.get("servers").and_then(Value::as_object).into_iter().flatten();
                let why = "zk takes servers at the start of a conversation: give `mcpServers` there";
                let errors: Map<String, Value> =
                    servers.map(|(name, _)| (name.clone(), why.into())).collect();
                Ok(json!({"added": [], "removed": [], "errors": errors}))
            }
            "get_context_usage" => Ok(self.context_usage(&hosted.agent())),
            "rewind_files" => Err(
                "Files cannot be rewound: zk keeps no checkpoints of files. Version control brings them back"
                    .to_owned(),
            ),
            "stop_task" => Err(format!(
                "There is no task {}: zk gives a host no tasks in the background. `interrupt` ends a turn with its sub-agents",
                text("task_id")
            )),
            "cancel_async_message" => Ok(json!({"cancelled": false})),
            "background_tasks" | "seed_read_state" => Ok(json!({})),
            "get_session_cost" => Ok(json!({"total_cost_usd": self.known().cost})),
            "get_binary_version" => {
                Ok(json!({"version": PROTOCOL_VERSION, "zk_version": self.options.version}))
            }
            "list_models" => {
                let models = hosted.factory().known_models().await;
                let models: Vec<Value> = models
                    .iter()
                    .map(|model| json!({"value": model.id, "displayName": model.id, "description": model.provider}))
                    .collect();
                Ok(json!({"models": models}))
            }
            "get_settings" => Ok(json!({"settings": hosted.factory().settings_report().lines})),
            "rename_session" => {
                let (session, _) = id_of_uuid(&self.known().session);
                let named = hosted.sessions().rename(&session.into(), text("title")).await;
                named.map(|()| json!({})).map_err(|error| error.to_string())
            }
            "end_session" => {
                hosted.conversation().cancel("the host ended the session");
                Ok(json!({}))
            }
            other => Err(format!("Unsupported control request subtype: {other}")),
        }
    }

    /// Sets the model; without a name, the model of the start.
    async fn set_model(&self, name: Option<&str>) -> Result<Value, String> {
        let hosted = self.present().ok_or("there is no conversation")?;
        let agent = hosted.agent();
        let model = match name.filter(|name| *name != "default") {
            Some(name) => {
                let found = hosted.factory().find_model(name, &agent).await;
                found.map_err(|error| error.to_string())?.model
            }
            None => self.known().default_model.clone().ok_or("there is no default model")?,
        };
        let id = model.id.clone();
        agent.set_model(model).await.map_err(|error| error.to_string())?;
        let said = format!("<local-command-stdout>Set model to `{id}`</local-command-stdout>");
        self.send(json!({
            "type": "user", "message": {"role": "user", "content": said}, "parent_tool_use_id": null,
            "timestamp": now(), "isReplay": true,
        }));
        Ok(json!({"model": name}))
    }

    fn mcp_status(&self) -> Value {
        let known = self.known();
        let own = known.servers.iter().map(|(name, tools)| {
            let tools = tools.as_array().into_iter().flatten();
            let tools: Vec<Value> =
                tools.filter_map(|tool| Some(json!({"name": tool.get("name")?}))).collect();
            json!({
                "name": name, "status": "connected", "scope": "dynamic", "source": "sdk", "tools": tools,
                "serverInfo": {"name": name, "version": ""},
            })
        });
        json!({"mcpServers": own.collect::<Vec<Value>>()})
    }

    fn context_usage(&self, agent: &zk_agent::Agent) -> Value {
        let window = agent.model().window.unwrap_or_default();
        let used = {
            let known = self.known();
            known.models.values().map(|stats| stats.usage.context()).max().unwrap_or_default()
        };
        let free = window.saturating_sub(used);
        let share = (used * 100).checked_div(window).unwrap_or_default();
        json!({
            "categories": [
                {"id": "messages", "name": "Messages", "tokens": used, "color": "", "kind": "used"},
                {"id": "free_space", "name": "Free space", "tokens": free, "color": "", "kind": "free"},
            ],
            "totalTokens": used, "maxTokens": window, "rawMaxTokens": window, "percentage": share,
            "model": agent.model().id, "memoryFiles": [], "mcpTools": [], "agents": [], "gridRows": [],
        })
    }
}
