use serde_json::Value;
use zk_core::service::PluginSettings;
use zk_settings::to_json;

use super::Settings;

impl PluginSettings for Settings {
    fn table(&self, plugin: &str) -> Option<Value> {
        Some(to_json(toml::Value::Table(Self::table(self, &["plugins", plugin])?)))
    }
}
