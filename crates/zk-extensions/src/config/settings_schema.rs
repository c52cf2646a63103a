use serde_json::{Value, json};

/// JSON Schema of the list `extensions` of settings.
///
/// ```
/// let schema = zk_extensions::settings_schema();
/// assert_eq!(schema["items"]["properties"]["command"]["type"], "array");
/// ```
#[must_use]
pub fn settings_schema() -> Value {
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": 3_600_000 });
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name", "command"],
            "additionalProperties": false,
            "properties": {
                "name": { "type": "string", "pattern": "^[a-z0-9_-]{1,32}$" },
                "command": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                "env": { "type": "object", "additionalProperties": { "type": "string" } },
                "settings": { "type": "object" },
                "enabled": { "type": "boolean" },
                "guards": { "type": "boolean" },
                "timeout": limit,
                "call_timeout": limit,
                "start_timeout": limit,
            },
        },
    })
}
