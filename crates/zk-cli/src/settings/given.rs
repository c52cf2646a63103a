use std::fmt;

use zk_providers::{Access, VENDOR_VARIABLES, Vendors};

use crate::env::Env;

/// Values given one by one, each under the name of its flag or variable.
#[derive(Clone, Default)]
pub(crate) struct LayerValues(pub(super) Vec<(String, String, toml::Value)>);

impl fmt::Debug for LayerValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the values: among those of the environment are keys.
        f.debug_list().entries(self.0.iter().map(|(key, from, _)| (key, from))).finish()
    }
}

impl LayerValues {
    pub(crate) fn text(&mut self, key: &str, from: &str, value: Option<String>) {
        self.put(key, from, value.map(toml::Value::String));
    }

    pub(crate) fn count(&mut self, key: &str, from: &str, value: Option<u32>) {
        self.put(key, from, value.map(|count| toml::Value::Integer(count.into())));
    }

    pub(crate) fn flag(&mut self, key: &str, from: &str, value: Option<bool>) {
        self.put(key, from, value.map(toml::Value::Boolean));
    }

    pub(crate) fn number(&mut self, key: &str, from: &str, value: Option<f64>) {
        self.put(key, from, value.map(toml::Value::Float));
    }

    pub(crate) fn texts(&mut self, key: &str, from: &str, values: Vec<String>) {
        let values = values.into_iter().map(toml::Value::String).collect::<Vec<_>>();
        self.put(key, from, (!values.is_empty()).then_some(toml::Value::Array(values)));
    }

    fn put(&mut self, key: &str, from: &str, value: Option<toml::Value>) {
        self.0.extend(value.map(|value| (key.to_owned(), from.to_owned(), value)));
    }
}

pub(super) fn defaults() -> LayerValues {
    let mut given = LayerValues::default();
    let from = "zk";
    given.text("thinking", from, Some("adaptive".to_owned()));
    given.text("preset", from, Some("build".to_owned()));
    given.flag("sessions", from, Some(true));
    given.flag("shorten", from, Some(true));
    given.flag("skills.enabled", from, Some(true));
    given.flag("skills.project", from, Some(true));
    given.flag("permissions.allow_all", from, Some(false));
    given.flag("permissions.audit", from, Some(true));
    given
}

/// The variables the ecosystem uses, as settings.
pub(super) fn environment(env: &Env, vendors: &Vendors) -> LayerValues {
    let mut given = LayerValues::default();
    let mut give = |variable: &str, name: &str, what: &str| {
        given.text(&format!("providers.{name}.{what}"), variable, env.text(variable).map(str::to_owned));
    };
    for vendor in vendors.iter() {
        if let Access::Key(variables) = vendor.access
            && let Some(variable) = variables.iter().find(|variable| env.text(variable).is_some())
        {
            give(variable, vendor.name, "api_key");
        }
    }
    for row in VENDOR_VARIABLES {
        let value = env.text(row.variable).map(|value| value.trim_end_matches('/'));
        if row.unless.is_none() || value != row.unless {
            give(row.variable, row.vendor, row.setting);
        }
    }
    given.text("context", "ZK_CONTEXT", env.text("ZK_CONTEXT").map(str::to_owned));
    given.text("screen", "ZK_SCREEN", env.text("ZK_SCREEN").map(str::to_owned));
    given
}
