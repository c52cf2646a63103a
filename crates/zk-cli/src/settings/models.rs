use zk_providers::Overrides;

use super::Settings;

impl Settings {
    /// Reads the settings about the models of `provider`: `[models."PROVIDER/ID"]`.
    pub(crate) fn models(&self, provider: &str) -> Overrides {
        let of_provider = self.models.iter().filter_map(|(model, said)| {
            let (_, id) = model.split_once('/').filter(|(named, _)| *named == provider)?;
            Some((id.to_owned(), said.clone().into()))
        });
        of_provider.collect()
    }

    /// Returns a warning for each configured model whose provider is unknown, since its settings have no
    /// effect.
    pub(super) fn models_of_nobody(&self) -> Vec<String> {
        let providers = self.known_providers().names();
        let mut warnings = Vec::new();
        for model in self.models.keys() {
            let Some((provider, _)) = model.split_once('/') else { continue };
            if provider.is_empty() || providers.iter().any(|known| known == provider) {
                continue;
            }
            let hint = zk_settings::suggest::did_you_mean(provider, providers.iter().map(String::as_str));
            let origin = self.merged.origin_below(&["models", model]);
            let place = origin.map_or("", |origin| origin.place.as_str());
            warnings
                .push(format!("{place}: [models.\"{model}\"] names an unknown provider `{provider}`{hint}"));
        }
        warnings
    }
}
