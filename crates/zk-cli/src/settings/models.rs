use zk_core::model::ThinkingSupport;
use zk_providers::{Efforts, Override, Overrides};

use super::Settings;

impl Settings {
    /// Reads the settings about the models of `provider`: `[models."PROVIDER/ID"]`.
    pub(crate) fn models(&self, provider: &str) -> Overrides {
        let mut said = std::collections::BTreeMap::<String, Override>::new();
        for (path, entry) in self.layers.iter() {
            let [table, model, key] = path else { continue };
            let Some((_, id)) = model.split_once('/').filter(|(named, _)| *named == provider) else {
                continue;
            };
            if table == "models" {
                set(said.entry(id.to_owned()).or_default(), key, &entry.value);
            }
        }
        said.into_iter().collect()
    }

    /// A warning for every model whose provider nobody knows, so that what is said of it has no effect.
    pub(super) fn models_of_nobody(&self) -> Vec<String> {
        let providers = self.known_providers().names();
        let mut warnings = Vec::new();
        for (path, entry) in self.layers.iter() {
            let [table, model, _] = path else { continue };
            let Some((provider, _)) = model.split_once('/').filter(|_| table == "models") else { continue };
            if provider.is_empty() || providers.iter().any(|known| known == provider) {
                continue;
            }
            let hint = crate::suggest::did_you_mean(provider, providers.iter().map(String::as_str));
            let place = &entry.origin.place;
            warnings
                .push(format!("{place}: [models.\"{model}\"] names an unknown provider `{provider}`{hint}"));
        }
        warnings.dedup();
        warnings
    }
}

/// Takes in one setting. Its type was checked when it was read; an unknown one was told then.
fn set(said: &mut Override, key: &str, value: &toml::Value) {
    let count = || value.as_integer().and_then(|count| u64::try_from(count).ok());
    let price = || value.as_float().or_else(|| value.as_integer().map(|price| price as f64));
    match key {
        "window" => said.window = count(),
        "max_output" => said.max_output = count(),
        "input" => said.input = price(),
        "output" => said.output = price(),
        "cache_read" => said.cache_read = price(),
        "cache_write" => said.cache_write = price(),
        "vision" => said.vision = value.as_bool(),
        "thinking" => {
            said.thinking = match value.as_str() {
                Some("none") => Some(ThinkingSupport::None),
                Some("budget") => Some(ThinkingSupport::Budget),
                Some("effort") => Some(ThinkingSupport::Effort),
                Some("adaptive") => Some(ThinkingSupport::Adaptive),
                Some(_) | None => None,
            };
        }
        "efforts" => {
            let levels = value.as_array().into_iter().flatten().filter_map(toml::Value::as_str);
            let levels = levels.map(|level| match level.split_once('=') {
                Some((level, word)) => (level, Some(word.to_owned().into())),
                None => (level, None),
            });
            said.efforts = Some(Efforts::of(levels));
        }
        _ => {}
    }
}
