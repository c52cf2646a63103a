use serde_json::Value;

/// Converts a value of a settings file to JSON; times, and numbers that JSON lacks, become strings.
///
/// ```
/// let table: toml::Table = "at = 2026-01-02\nlimit = inf\ndeep = [{ a = 1 }]".parse().unwrap();
/// let value = zk_settings::to_json(toml::Value::Table(table));
/// assert_eq!(value, serde_json::json!({"at": "2026-01-02", "limit": "inf", "deep": [{"a": 1}]}));
/// ```
#[must_use]
pub fn to_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) if !number.is_finite() => number.to_string().into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(to_json).collect(),
        toml::Value::Table(table) => table.into_iter().map(|(key, value)| (key, to_json(value))).collect(),
    }
}
