use serde_json::Value;
use zk_core::service::PluginSettings;

use super::Settings;

impl PluginSettings for Settings {
    fn table(&self, plugin: &str) -> Option<Value> {
        Some(to_json(toml::Value::Table(Self::table(self, &["plugins", plugin])?)))
    }
}

/// A value of a settings file as JSON; times, and numbers that JSON does not have, become texts.
pub(super) fn to_json(value: toml::Value) -> Value {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_and_an_infinite_number_become_texts() {
        let table = "at = 2026-01-02\nlimit = inf\ndeep = [{ a = 1 }]".parse::<toml::Table>().unwrap();
        let value = to_json(toml::Value::Table(table));
        assert_eq!(value, json!({"at": "2026-01-02", "limit": "inf", "deep": [{"a": 1}]}));
    }
}
