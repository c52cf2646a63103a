use std::time::Duration;

use zk_core::kernel::Bus;
use zk_core::model::{Model, ThinkingLevel};
use zk_core::service::Provider;

use super::known::KnownProviders;
use crate::catalogue::models::{ResolvedModel, known_models, resolve_model};

/// Time limit for a server to list its models.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// Splits a thinking level off the name of a model, as in `sonnet:low`. A tag such as `:latest` stays part of
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

/// Another provider that the name of a model points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherProvider {
    /// Name of the provider.
    pub name: String,
    /// Whether the name has the provider as a prefix, so that no other provider may be used.
    pub is_explicit: bool,
}

/// A model that the table does not have: new, or misspelt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownModel {
    /// Up to three ids at its provider that are most similar, best first.
    pub near: Vec<&'static str>,
    /// Whether the provider has listed its models, without this one.
    pub is_unlisted: bool,
}

impl KnownProviders {
    /// Returns the id of the model called `name` at `provider`. A name of another provider's model is taken
    /// as an id.
    #[must_use]
    pub fn model_id(&self, provider: &str, name: &str) -> String {
        let resolved = self.resolve_model(name, Some(provider));
        match resolved.provider.as_deref() {
            Some(named) if named == provider => resolved.id,
            Some(_) | None => split_thinking_level(name).0.to_owned(),
        }
    }

    /// Returns the provider that the model `name` belongs to, if it is not `provider`.
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
        // A prefix names the provider even if its table lacks the model; a bare name has to be in the table.
        let is_explicit =
            name.trim().split_once('/').is_some_and(|(first, _)| first.eq_ignore_ascii_case(&other));
        (is_explicit || found.is_known).then_some(OtherProvider { name: other, is_explicit })
    }

    /// Checks whether the table lacks `model`.
    #[must_use]
    pub fn unknown_model(&self, model: &Model) -> Option<UnknownModel> {
        if model.window.is_some() || !has_catalogue(&model.provider) {
            return None;
        }
        let resolved = self.resolve_model(&model.id, Some(&model.provider));
        (!resolved.is_known).then_some(UnknownModel { near: resolved.near, is_unlisted: false })
    }

    /// Checks whether `model` is neither listed by `provider` nor known, while a similar name is known.
    pub async fn misspelt_model(&self, provider: &dyn Provider, model: &Model) -> Option<UnknownModel> {
        let unknown = self.unknown_model(model).filter(|unknown| !unknown.near.is_empty())?;
        match lists_model_now(provider, &model.id).await {
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

/// Whether the server lists a model with this id, within two seconds.
pub async fn lists_model(provider: &dyn Provider, id: &str) -> bool {
    lists_model_now(provider, id).await == Some(true)
}

/// Whether the server lists models within two seconds, and none with this id.
pub async fn lacks_model(provider: &dyn Provider, id: &str) -> bool {
    lists_model_now(provider, id).await == Some(false)
}

/// Whether the server lists a model with this id; `None` if it does not answer within two seconds.
async fn lists_model_now(provider: &dyn Provider, id: &str) -> Option<bool> {
    let cx = Bus::new().cx();
    let listed = tokio::time::timeout(LIST_TIMEOUT, provider.list_models(&cx)).await;
    let listed = listed.ok()?.ok()??;
    // A server with an empty list is no evidence.
    (!listed.is_empty()).then(|| listed.iter().any(|model| model.id == id))
}

fn has_catalogue(provider: &str) -> bool {
    known_models(provider).next().is_some()
}
