use serde_json::{Map, Value, json};

use super::HookEvent;

/// JSON Schema of the table `hooks` of settings.
///
/// ```
/// let schema = zk_hooks::settings_schema();
/// assert_eq!(schema["properties"]["PreToolUse"]["type"], "array");
/// ```
#[must_use]
pub fn settings_schema() -> Value {
    let events = HookEvent::ALL.iter().map(|event| (event.name().to_owned(), hooks_of_an_event()));
    json!({ "type": "object", "properties": events.collect::<Map<_, _>>() })
}

/// Schema for the hooks of one event: a matcher with one command, or several.
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
