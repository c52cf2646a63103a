use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kernel::{Bus, Source};

/// The settings of plugins, one table for each: `[plugins.NAME]` in the program's settings.
///
/// ```
/// use std::sync::Arc;
/// use serde::Deserialize;
/// use serde_json::{Value, json};
/// use zk_core::kernel::Bus;
/// use zk_core::service::{PluginSettings, settings_of};
///
/// #[derive(Debug, Default, Deserialize, PartialEq)]
/// struct Settings {
///     limit: u32,
/// }
///
/// struct Fixed;
///
/// impl PluginSettings for Fixed {
///     fn table(&self, plugin: &str) -> Option<Value> {
///         (plugin == "guard").then(|| json!({ "limit": 3 }))
///     }
/// }
///
/// let bus = Bus::new();
/// bus.scope("host").provide_service::<dyn PluginSettings>(Arc::new(Fixed));
/// let scope = bus.scope("guard");
/// assert_eq!(settings_of::<Settings>(&bus, scope.source()).unwrap(), Some(Settings { limit: 3 }));
/// ```
pub trait PluginSettings: Send + Sync {
    /// Returns the settings table of `plugin`, if there is one.
    fn table(&self, plugin: &str) -> Option<Value>;
}

/// Settings of a plugin that do not have the expected shape.
#[derive(Debug, thiserror::Error)]
#[error("settings of plugin `{plugin}`: {source}; correct `[plugins.{plugin}]`")]
pub struct PluginSettingsError {
    /// Source of the plugin.
    pub plugin: Source,
    /// Cause: the error of deserialising the table.
    pub source: serde_json::Error,
}

/// Deserialises the settings of one plugin as a `T`; `None` if there are none.
///
/// # Errors
/// [`PluginSettingsError`] when the table is no valid `T`.
pub fn settings_of<T: DeserializeOwned>(
    bus: &Bus,
    plugin: &Source,
) -> Result<Option<T>, PluginSettingsError> {
    let table = bus.service::<dyn PluginSettings>().and_then(|settings| settings.table(plugin.as_str()));
    table
        .map(serde_json::from_value)
        .transpose()
        .map_err(|source| PluginSettingsError { plugin: plugin.clone(), source })
}
