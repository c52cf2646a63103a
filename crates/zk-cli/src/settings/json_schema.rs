use serde_json::Value;

/// Version of the settings' JSON shape. Additions increase the second part, removals the first.
const VERSION: &str = "1.32";

/// The JSON Schema of a settings file.
pub(crate) fn json_schema() -> Value {
    let mut schema = super::known_schema().json("Settings of zk", VERSION);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert("extensions".into(), zk_extensions::settings_schema());
        properties.insert("hooks".into(), zk_hooks::settings_schema());
        properties.insert(super::bundles::LIST.into(), super::bundles::schema());
    }
    schema
}

/// Reference of the settings in Markdown.
pub(crate) fn reference() -> String {
    super::known_schema().reference()
}
