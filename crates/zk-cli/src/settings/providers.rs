use zk_providers::select::{KnownProviders, ProviderSettings, SetValue, ValueRank};

use super::{Entry, Layer, Settings};

impl Settings {
    /// Returns all providers that can be named, with their settings.
    pub(crate) fn known_providers(&self) -> KnownProviders {
        let own = self.table(&["providers"]).unwrap_or_default();
        let settings = own.into_iter().map(|(name, _)| {
            let settings = self.provider(&name);
            (name, settings)
        });
        KnownProviders { map: self.additions.providers.clone(), settings: settings.collect() }
    }

    fn provider(&self, name: &str) -> ProviderSettings {
        let text = |what: &str| {
            let entry = self.of_provider(name, what)?;
            Some(set_value(entry, entry.text()?.to_owned()))
        };
        let secret = |what: &str| {
            let entry = self.of_provider(name, what)?;
            Some(set_value(entry, entry.key.clone()?))
        };
        ProviderSettings {
            like: text("like").map(|set| set.value),
            base_url: text("base_url"),
            api_key: secret("api_key"),
            auth_token: secret("auth_token"),
        }
    }
}

fn set_value<T>(entry: &Entry, value: T) -> SetValue<T> {
    let rank = match entry.origin.layer {
        Layer::Environment => ValueRank::Environment,
        Layer::Managed => ValueRank::Managed,
        Layer::Default
        | Layer::User
        | Layer::Project
        | Layer::ProjectLocal
        | Layer::Kept
        | Layer::ProjectPreset
        | Layer::Preset
        | Layer::CommandLine => ValueRank::Settings,
    };
    SetValue { value, rank, origin: entry.origin.to_string() }
}
