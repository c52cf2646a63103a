use serde_json::{Map, Value, json};

use crate::exit::Outcome;

/// The version of the settings' shape: the second part grows with what is added, the first with what is taken away.
const VERSION: &str = "1.22";

/// The JSON Schema of a settings file.
pub(crate) fn json_schema() -> Outcome<Value> {
    let mut schema = super::known()?.json("Settings of zk", VERSION);
    let events = zk_hooks::HookEvent::ALL.iter().map(|event| (event.name().to_owned(), hooks_of_an_event()));
    let hooks = json!({ "type": "object", "properties": events.collect::<Map<_, _>>() });
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert("hooks".into(), hooks);
    }
    Ok(schema)
}

/// Reference of the settings in Markdown.
pub(crate) fn reference() -> Outcome<String> {
    Ok(super::known()?.reference())
}

/// The hooks of one event: a command with what it is for, or several below one matcher.
fn hooks_of_an_event() -> Value {
    let command = json!({
        "type": { "type": "string" },
        "command": { "type": "string" },
        "timeout": { "type": "number", "exclusiveMinimum": 0, "maximum": 3600 },
    });
    let mut group = command.clone();
    if let Value::Object(group) = &mut group {
        group.insert("matcher".into(), json!({ "type": "string" }));
        let several = json!({ "type": "array", "items": { "type": "object", "properties": command } });
        group.insert("hooks".into(), several);
    }
    json!({ "type": "array", "items": { "type": "object", "properties": group } })
}
