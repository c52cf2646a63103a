//! Messages of the Agent Client Protocol, version 1, as far as zk reads them. Unknown fields are ignored.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

/// Version of the protocol that zk speaks.
pub(crate) const PROTOCOL_VERSION: u64 = 1;

/// Parameters of `initialize`, with zk's abilities.
pub(crate) fn initialize_params() -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "clientInfo": { "name": "zk", "title": "zk", "version": env!("CARGO_PKG_VERSION") },
        "clientCapabilities": {
            "fs": { "readTextFile": true, "writeTextFile": true },
            "terminal": true,
        },
    })
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InitializeAnswer {
    pub(crate) protocol_version: u64,
    pub(crate) agent_capabilities: AgentCapabilities,
    pub(crate) agent_info: Option<AgentInfo>,
    pub(crate) auth_methods: Vec<AuthMethod>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AgentCapabilities {
    pub(crate) load_session: bool,
    pub(crate) prompt_capabilities: PromptCapabilities,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PromptCapabilities {
    pub(crate) image: bool,
    pub(crate) embedded_context: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AgentInfo {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AuthMethod {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
}

/// Answer to `session/new` or `session/load`; the latter has no session id.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SessionAnswer {
    pub(crate) session_id: String,
    pub(crate) models: Option<SessionModels>,
    pub(crate) config_options: Option<Vec<ConfigOption>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SessionModels {
    pub(crate) available_models: Vec<AvailableModel>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AvailableModel {
    pub(crate) model_id: String,
}

/// An option of a session. The option of the category `model` lists the models.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConfigOption {
    pub(crate) id: String,
    pub(crate) category: Option<String>,
    pub(crate) options: Vec<Value>,
}

impl ConfigOption {
    /// Returns the values of the option, including those in groups.
    pub(crate) fn values(&self) -> Vec<String> {
        let value = |option: &Value| option.get("value").and_then(Value::as_str).map(ToOwned::to_owned);
        let grouped = |option: &Value| option.get("options").and_then(Value::as_array).cloned();
        let each = |option: &Value| match grouped(option) {
            Some(group) => group.iter().filter_map(value).collect::<Vec<_>>(),
            None => value(option).into_iter().collect(),
        };
        self.options.iter().flat_map(each).collect()
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SessionUpdate {
    pub(crate) update: Update,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(crate) enum Update {
    AgentMessageChunk {
        content: Value,
    },
    AgentThoughtChunk {
        content: Value,
    },
    #[serde(rename = "tool_call")]
    StepBegan(StepUpdate),
    #[serde(rename = "tool_call_update")]
    StepChanged(StepUpdate),
    Plan {
        #[serde(default)]
        entries: Vec<PlanEntry>,
    },
    #[serde(other)]
    Other,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PlanEntry {
    pub(crate) content: String,
    pub(crate) status: String,
}

/// A tool call of the agent, or changed fields of one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StepUpdate {
    pub(crate) tool_call_id: String,
    pub(crate) title: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) content: Option<Vec<Value>>,
    pub(crate) locations: Option<Vec<StepLocation>>,
    pub(crate) raw_input: Option<Value>,
    pub(crate) raw_output: Option<Value>,
}

impl StepUpdate {
    /// Removes the texts of the update, which in a permission request are the words of the question.
    pub(crate) fn without_words(mut self) -> Self {
        let is_diff = |part: &Value| part.get("type").and_then(Value::as_str) == Some("diff");
        self.content = self.content.map(|parts| parts.into_iter().filter(is_diff).collect::<Vec<_>>());
        self.content = self.content.filter(|parts| !parts.is_empty());
        self
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StepLocation {
    pub(crate) path: PathBuf,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PermissionParams {
    pub(crate) tool_call: StepUpdate,
    pub(crate) options: Vec<PermissionOption>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PermissionOption {
    pub(crate) option_id: String,
    pub(crate) kind: String,
}

/// Returns the text of a content block, or a placeholder for other content.
pub(crate) fn text_of(content: &Value) -> String {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    match content.get("type").and_then(Value::as_str) {
        Some("text") => text(content, "text").unwrap_or_default(),
        Some("resource_link") => format!("[{}]", text(content, "uri").unwrap_or_default()),
        Some("resource") => {
            content.get("resource").and_then(|resource| text(resource, "text")).unwrap_or_default()
        }
        Some(other) => format!("[{other}]"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_read_and_unknown_ones_passed_over() {
        let read = |update: Value| {
            serde_json::from_value::<SessionUpdate>(json!({ "sessionId": "s", "update": update }))
                .unwrap()
                .update
        };
        let chunk = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}});
        assert!(matches!(read(chunk), Update::AgentMessageChunk { content } if text_of(&content) == "a"));
        assert!(matches!(read(json!({"sessionUpdate": "notice", "x": 1})), Update::Other));
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "locations": [{"path": "/a"}]});
        assert!(matches!(read(call), Update::StepBegan(step) if step.tool_call_id == "c"));
    }

    #[test]
    fn options_in_groups_are_listed() {
        let option: ConfigOption = serde_json::from_value(json!({
            "id": "m", "category": "model",
            "options": [{"value": "a", "name": "A"}, {"name": "G", "options": [{"value": "b"}]}],
        }))
        .unwrap();
        assert_eq!(option.values(), ["a", "b"]);
    }
}
