use super::wire::RpcError;
use serde_json::{Value, json};
use zk_chat::HostedConversation;
use zk_permission::{Mode, ModeSwitch};

/// Name of the mode in which the agent plans first.
const PLAN: &str = "plan";

/// Choices of a session, as the editor shows them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Choices {
    pub(super) modes: Value,
    pub(super) options: Vec<Value>,
}

impl Choices {
    /// Collects the current choices; the protocol sends all of them with each update.
    pub(super) async fn of(hosted: &HostedConversation) -> Self {
        let modes = modes(hosted);
        let mut options = vec![mode_option(&modes), model_option(hosted).await];
        options.extend(thinking_option(hosted));
        Self { modes, options }
    }

    pub(super) fn current_mode(&self) -> &Value {
        self.modes.get("currentModeId").unwrap_or(&Value::Null)
    }
}

/// Returns the name of the chosen mode.
pub(super) fn mode(hosted: &HostedConversation) -> &'static str {
    mode_switch(hosted).map_or(Mode::Ask.name(), |switch| switch.name())
}

/// Chooses a permission mode, or planning.
pub(super) fn set_mode(hosted: &HostedConversation, name: &str) -> Result<(), RpcError> {
    let switch = mode_switch(hosted).ok_or_else(|| RpcError::internal("this conversation has no modes"))?;
    switch.choose_by_name(name).map_err(|error| RpcError::params(error.to_string()))
}

/// Sets a choice by its id.
pub(super) async fn set(hosted: &HostedConversation, id: &str, value: &str) -> Result<(), RpcError> {
    let command = match id {
        "mode" => return set_mode(hosted, value),
        "model" | "thinking" => id,
        _ => {
            return Err(RpcError::params(format!(
                "there is no option `{id}`; there are mode, model, thinking"
            )));
        }
    };
    let choices = Choices::of(hosted).await;
    let of_id = choices.options.iter().find(|option| option.get("id").and_then(Value::as_str) == Some(id));
    let values = of_id.and_then(|option| option.get("options")).and_then(Value::as_array);
    let is_offered = |option: &Value| option.get("value").and_then(Value::as_str) == Some(value);
    if !values.is_some_and(|values| values.iter().any(is_offered)) {
        return Err(RpcError::params(format!("`{value}` is no value of the option `{id}`")));
    }
    hosted.run_command(&format!("/{command} {value}")).await.map_err(RpcError::params)?;
    Ok(())
}

fn mode_switch(hosted: &HostedConversation) -> Option<ModeSwitch> {
    hosted.agent().bus().service::<ModeSwitch>().map(|switch| (*switch).clone())
}

fn modes(hosted: &HostedConversation) -> Value {
    let Some(switch) = mode_switch(hosted) else {
        return json!({ "currentModeId": Mode::Ask.name(), "availableModes": [mode_entry(Mode::Ask)] });
    };
    let can_be_chosen = |mode: &Mode| {
        *mode <= switch.widest() && (*mode != Mode::Auto || switch.is_contained()) || *mode == switch.chosen()
    };
    let mut available: Vec<Value> = Mode::ALL.into_iter().filter(can_be_chosen).map(mode_entry).collect();
    available.push(json!({
        "id": PLAN, "name": "plan",
        "description": "only what reads runs, and a plan is presented before anything is changed",
    }));
    json!({ "currentModeId": switch.name(), "availableModes": available })
}

fn mode_entry(mode: Mode) -> Value {
    json!({ "id": mode.name(), "name": mode.name(), "description": mode.describe() })
}

fn mode_option(modes: &Value) -> Value {
    let available = modes.get("availableModes").and_then(Value::as_array).cloned().unwrap_or_default();
    let options: Vec<Value> = available
        .iter()
        .map(|mode| json!({ "value": mode["id"], "name": mode["name"], "description": mode["description"] }))
        .collect();
    json!({
        "id": "mode", "name": "Permission mode", "category": "mode", "type": "select",
        "description": "Calls that run without a question",
        "currentValue": modes["currentModeId"], "options": options,
    })
}

async fn model_option(hosted: &HostedConversation) -> Value {
    let current = hosted.agent().model();
    let mut models = hosted.factory().known_models().await;
    if models.iter().all(|model| model.reference() != current.reference()) {
        models.insert(0, current.clone());
    }
    let options: Vec<Value> = models
        .iter()
        .map(|model| {
            let reference = model.reference().to_string();
            json!({ "value": reference, "name": &*model.id, "description": &*model.provider })
        })
        .collect();
    json!({
        "id": "model", "name": "Model", "category": "model", "type": "select",
        "currentValue": current.reference().to_string(), "options": options,
    })
}

fn thinking_option(hosted: &HostedConversation) -> Option<Value> {
    let agent = hosted.agent();
    let mut levels = hosted.factory().thinking_levels(&agent.model());
    let current = agent.thinking().level.as_str().to_owned();
    if levels.is_empty() {
        return None;
    }
    if !levels.contains(&current) {
        levels.push(current.clone());
    }
    let options: Vec<Value> = levels.iter().map(|level| json!({ "value": level, "name": level })).collect();
    Some(json!({
        "id": "thinking", "name": "Thinking", "category": "thought_level", "type": "select",
        "currentValue": current, "options": options,
    }))
}
