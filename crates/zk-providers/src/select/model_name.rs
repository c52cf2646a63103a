use std::time::Duration;

use zk_core::kernel::Bus;
use zk_core::model::{Model, ThinkingLevel};
use zk_core::service::Provider;

use super::known::KnownProviders;
use crate::catalogue::models::{ResolvedModel, known_models, resolve_model};

/// Time limit of a server that lists its models.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// Splits the name of a model and the thinking level behind it, as in `sonnet:low`. A tag such as `:latest` belongs to
/// the name.
///
/// ```
/// use zk_core::model::ThinkingLevel;
/// use zk_providers::select::split_thinking_level;
///
/// assert_eq!(split_thinking_level("sonnet:low"), ("sonnet", Some(ThinkingLevel::Low)));
/// assert_eq!(split_thinking_level("qwen:latest"), ("qwen:latest", None));
/// ```
#[must_use]
pub fn split_thinking_level(name: &str) -> (&str, Option<ThinkingLevel>) {
    let name = name.trim();
    let split = name.rsplit_once(':').and_then(|(model, level)| Some((model, level.parse().ok()?)));
    match split {
        Some((model, level)) if !model.is_empty() => (model, Some(level)),
        Some(_) | None => (name, None),
    }
}

/// Provider that the name of a model stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherProvider {
    /// Name of the provider.
    pub name: String,
    /// Whether it was named, so that no other one will do.
    pub is_explicit: bool,
}

/// Model that the table of its provider lacks: it may be new, or misspelt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownModel {
    /// Ids at that provider that look most like it, best first, at most three.
    pub near: Vec<&'static str>,
    /// Whether the provider said which models it has, and this is none of them.
    pub is_unlisted: bool,
}

impl KnownProviders {
    /// The id of the model called `name` at `provider`. A name that means another provider's model is taken as an id.
    #[must_use]
    pub fn model_id(&self, provider: &str, name: &str) -> String {
        let resolved = self.resolve_model(name, Some(provider));
        match resolved.provider.as_deref() {
            Some(named) if named == provider => resolved.id,
            Some(_) | None => split_thinking_level(name).0.to_owned(),
        }
    }

    /// The provider other than `provider` whose model `name` is, if it is.
    #[must_use]
    pub fn other_provider(&self, provider: Option<&str>, name: &str) -> Option<OtherProvider> {
        let here = self.resolve_model(name, provider);
        let is_elsewhere = here.provider.is_some() && here.provider.as_deref() != provider;
        let found = if is_elsewhere {
            here
        } else if here.is_known || provider.is_some_and(|provider| !has_catalogue(provider)) {
            return None;
        } else {
            self.resolve_model(name, None)
        };
        let other = found.provider.filter(|named| Some(&**named) != provider)?;
        // A prefix names the provider whatever its table says; a bare name has to be one that the table knows.
        let is_explicit =
            name.trim().split_once('/').is_some_and(|(first, _)| first.eq_ignore_ascii_case(&other));
        (is_explicit || found.is_known).then_some(OtherProvider { name: other, is_explicit })
    }

    /// Finds out whether the table of its provider lacks `model`.
    #[must_use]
    pub fn unknown_model(&self, model: &Model) -> Option<UnknownModel> {
        if model.window.is_some() || !has_catalogue(&model.provider) {
            return None;
        }
        let resolved = self.resolve_model(&model.id, Some(&model.provider));
        (!resolved.is_known).then_some(UnknownModel { near: resolved.near, is_unlisted: false })
    }

    /// Finds out whether `model` is one that `provider` neither lists nor is known for, while a model with nearly this name is
    /// known.
    pub async fn misspelt_model(&self, provider: &dyn Provider, model: &Model) -> Option<UnknownModel> {
        let unknown = self.unknown_model(model).filter(|unknown| !unknown.near.is_empty())?;
        match listing_has(provider, &model.id).await {
            Some(true) => None,
            has => Some(UnknownModel { is_unlisted: has == Some(false), ..unknown }),
        }
    }

    fn resolve_model(&self, name: &str, provider: Option<&str>) -> ResolvedModel {
        let names = self.names();
        let own: Vec<&str> = names.iter().map(String::as_str).collect();
        resolve_model(split_thinking_level(name).0, provider, &own)
    }
}

/// Whether the server lists a model of this id, as far as it says so within two seconds.
pub async fn lists_model(provider: &dyn Provider, id: &str) -> bool {
    listing_has(provider, id).await == Some(true)
}

/// Whether the server lists a model of this id; nothing where it does not say so within two seconds.
async fn listing_has(provider: &dyn Provider, id: &str) -> Option<bool> {
    let cx = Bus::new().cx();
    let listed = tokio::time::timeout(LIST_TIMEOUT, provider.list_models(&cx)).await;
    let listed = listed.ok()?.ok()??;
    // A server that lists nothing says nothing.
    (!listed.is_empty()).then(|| listed.iter().any(|model| model.id == id))
}

fn has_catalogue(provider: &str) -> bool {
    known_models(provider).next().is_some()
}
