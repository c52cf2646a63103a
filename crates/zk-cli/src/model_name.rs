//! Names that a person gives a model, with the endpoint and id that each stands for: every name that a list
//! of models prints, a family such as `opus`, or an id.

use std::time::Duration;

use zk_core::kernel::Bus;
use zk_core::model::{Model, ThinkingLevel};
use zk_core::service::Provider;
use zk_providers::{ResolvedModel, known_models, resolve_model};

use crate::credentials::StoredCredentials;
use crate::endpoint::{self, Endpoint, Flags, NamedProvider};
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::Settings;
use zk_settings::suggest;

/// Time limit of a server that lists its models.
const LIST_LIMIT: Duration = Duration::from_secs(2);

/// The name of a model and the thinking level behind it, as in `sonnet:low`. A tag such as `:latest` belongs to the name.
pub(crate) fn split_level(name: &str) -> (&str, Option<ThinkingLevel>) {
    let name = name.trim();
    let split = name.rsplit_once(':').and_then(|(model, level)| Some((model, level.parse().ok()?)));
    match split {
        Some((model, level)) if !model.is_empty() => (model, Some(level)),
        Some(_) | None => (name, None),
    }
}

/// Resolves `name` at `provider`, or at no provider in particular.
fn resolve(settings: &Settings, name: &str, provider: Option<&str>) -> ResolvedModel {
    let (name, _) = split_level(name);
    let names = endpoint::names(settings);
    let own: Vec<&str> = names.iter().map(String::as_str).collect();
    resolve_model(name, provider, &own)
}

/// The id of the model called `name` at `provider`. A name that means another provider's model is taken as an id.
pub(crate) fn id_at(settings: &Settings, provider: &str, name: &str) -> String {
    let resolved = resolve(settings, name, Some(provider));
    match resolved.provider.as_deref() {
        Some(named) if named == provider => resolved.id,
        Some(_) | None => split_level(name).0.to_owned(),
    }
}

/// The provider other than `provider` whose model `name` is, if it is.
pub(crate) fn other_provider(
    settings: &Settings,
    provider: Option<&str>,
    name: &str,
) -> Option<OtherProvider> {
    let here = resolve(settings, name, provider);
    let is_elsewhere = here.provider.is_some() && here.provider.as_deref() != provider;
    let found = if is_elsewhere {
        here
    } else if here.is_known || provider.is_some_and(|provider| !has_catalogue(provider)) {
        return None;
    } else {
        resolve(settings, name, None)
    };
    let other = found.provider.filter(|named| Some(&**named) != provider)?;
    // A prefix names the provider whatever its table says; a bare name has to be one that the table knows.
    let is_explicit =
        name.trim().split_once('/').is_some_and(|(first, _)| first.eq_ignore_ascii_case(&other));
    (is_explicit || found.is_known).then_some(OtherProvider { name: other, is_explicit })
}

/// A provider that the name of a model stands for.
pub(crate) struct OtherProvider {
    pub(crate) name: String,
    /// Whether it was named, so that no other one will do.
    pub(crate) is_explicit: bool,
}

/// The endpoint for the model that is asked for: the one `chosen` without it, unless the model is another
/// provider's and nothing says where to go.
pub(crate) fn endpoint_for(
    settings: &Settings,
    flags: Flags<'_>,
    stored: &StoredCredentials,
    chosen: Outcome<Option<Endpoint>>,
) -> Outcome<Option<Endpoint>> {
    let (Some(name), Some(model)) = (settings.program.model.as_deref(), settings.origin("model")) else {
        return chosen;
    };
    let is_chosen = settings.origin("provider").is_some_and(|provider| provider.layer >= model.layer);
    if is_chosen || flags.base_url.is_some() {
        return chosen;
    }
    let chosen = match chosen {
        Err(failure) if failure.exit != Exit::Auth => return Err(failure),
        chosen => chosen,
    };
    let current = chosen.as_ref().ok().and_then(Option::as_ref);
    let provider = current.map(|endpoint| &*endpoint.provider.name);
    let Some(other) = other_provider(settings, provider, name) else { return chosen };
    let provider = NamedProvider::find(settings, &other.name)?;
    let why = format!("the model {name} is its ({model})");
    match endpoint::complete(settings, flags, stored, provider, why) {
        Ok(endpoint) => Ok(Some(endpoint)),
        // At an address of one's own, a name with a slash may be an id.
        Err(_) if !other.is_explicit || current.is_some_and(|endpoint| !endpoint.is_usual()) => chosen,
        Err(failure) => Err(Failure { message: format!("the model {name}: {}", failure.message), ..failure }),
    }
}

fn has_catalogue(provider: &str) -> bool {
    known_models(provider).next().is_some()
}

/// A note on a model that the table of its provider lacks: it may be new, or misspelt.
pub(crate) fn unknown_note(settings: &Settings, model: &Model) -> Option<String> {
    if model.window.is_some() || !has_catalogue(&model.provider) {
        return None;
    }
    let resolved = resolve(settings, &model.id, Some(&model.provider));
    (!resolved.is_known).then(|| format!("zk does not know this model{}", did_you_mean(&resolved.near)))
}

/// A warning before a run about a model that `provider` neither lists nor is known for, where one with nearly the same
/// name is.
pub(crate) async fn misspelt(settings: &Settings, provider: &dyn Provider, model: &Model) -> Option<String> {
    let note = unknown_note(settings, model)?;
    let resolved = resolve(settings, &model.id, Some(&model.provider));
    if resolved.near.is_empty() || lists(provider, &model.id).await {
        return None;
    }
    Some(format!("warning: {}: {note}", model.reference()))
}

/// Whether the server lists a model of this id, as far as it says so soon.
pub(crate) async fn lists(provider: &dyn Provider, id: &str) -> bool {
    let cx = Bus::new().cx();
    let listed = tokio::time::timeout(LIST_LIMIT, provider.list_models(&cx)).await;
    listed.is_ok_and(|listed| {
        listed.is_ok_and(|listed| listed.into_iter().flatten().any(|model| model.id == id))
    })
}

fn did_you_mean(near: &[&str]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", suggest::either(near)) }
}
