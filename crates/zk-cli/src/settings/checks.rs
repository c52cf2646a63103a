use std::sync::Arc;

use zk_providers::Vendors;
use zk_settings::{Check, FormerKey, Layer, Schema, dotted};

use super::Settings;
use super::own_tools::known_tools;
use super::sections::Sections;

/// Keys of an endpoint that are often set at the top level by mistake.
const ENDPOINT_KEYS: [&str; 3] = ["base_url", "api_key", "auth_token"];

/// Creates the schema of all settings, with checks of endpoints, providers, models and rules. A provider must
/// be one of `vendors`.
pub(super) fn schema(vendors: &Vendors) -> Schema {
    let vendors = vendors.clone();
    Sections::schema()
        .free("plugins", "Settings of a plugin, which checks them itself.")
        .reserved("policy")
        .rule(Arc::new(check_endpoint_key))
        .rule(Arc::new(move |path, value, _| check_provider(path, value, &vendors)))
        .rule(Arc::new(check_model))
        .rule(Arc::new(check_memory))
        .rule(Arc::new(check_rules))
}

impl Settings {
    /// Keys that files set by former names.
    pub(crate) fn former_keys(&self) -> &[FormerKey] {
        self.merged.former_keys()
    }
}

/// Checks for keys of an endpoint at the top level, where they have no effect.
fn check_endpoint_key(path: &[String], _: &toml::Value, layer: Layer) -> Option<Check> {
    let [name] = path else { return None };
    if !ENDPOINT_KEYS.contains(&name.as_str()) {
        return None;
    }
    Some(match layer.is_project() {
        true => Check::not_by_projects(name),
        false => Check::Warn(format!(
            "unknown setting `{name}`; put it under its provider, such as providers.anthropic.{name}"
        )),
    })
}

/// Checks for a provider without settings that define it.
fn check_provider(path: &[String], value: &toml::Value, vendors: &Vendors) -> Option<Check> {
    let [table, name] = path else { return None };
    if table != "providers" || !value.is_table() || vendors.named(name).is_some() {
        return None;
    }
    Some(Check::Warn(format!(
        "[{}] is empty: a provider of your own needs a `base_url`, or whom it is `like`",
        dotted(path)
    )))
}

/// Checks for a model without its provider.
fn check_model(path: &[String], _: &toml::Value, _: Layer) -> Option<Check> {
    let [table, model, _] = path else { return None };
    let is_named = model.split_once('/').is_some_and(|(provider, id)| !provider.is_empty() && !id.is_empty());
    if table != "models" || is_named {
        return None;
    }
    Some(Check::Ignored(format!(
        "`{}` is about no model: name it with its provider, such as [models.\"anthropic/{model}\"]",
        dotted(path)
    )))
}

/// Checks for a project that switches the memory on: it may only be stricter than the person.
fn check_memory(path: &[String], value: &toml::Value, layer: Layer) -> Option<Check> {
    let is_switch = path.iter().map(String::as_str).eq(["memory", "enabled"]);
    (is_switch && layer.is_project() && value.as_bool() == Some(true)).then(|| {
        Check::Ignored(
            "`memory.enabled` is ignored: a project may switch the memory off, and not on".to_owned(),
        )
    })
}

/// Checks for permission rules that are valid but probably not meant so.
fn check_rules(path: &[String], value: &toml::Value, _: Layer) -> Option<Check> {
    if path.first().is_none_or(|table| table != "permissions") {
        return None;
    }
    let decision = path.last()?.parse().ok()?;
    let known = known_tools();
    let why = value.as_array()?.iter().find_map(|rule| match rule.as_str() {
        Some(text) => known.wrong_rule(decision, text),
        None => Some("a rule is a text in quotes".to_owned()),
    })?;
    Some(Check::Invalid(format!("`{}`: {why}", dotted(path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_owner() {
        assert_eq!(Sections::schema().checked().map(|_| ()), Ok(()));
    }
}
