//! Facts about models that are known without a request: the generated table `models.tsv`, and a person's
//! overrides.

mod overrides;
mod resolve;
mod shutdown;
mod table;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;
use std::time::SystemTime;

use zk_core::model::Model;

use crate::catalogue::vendors::Vendor;
use crate::encode::effort::Efforts;

pub use overrides::{Override, Overrides};
pub use resolve::{ResolvedModel, resolve_model};
pub use shutdown::Shutdown;
pub(crate) use table::Row;

/// Providers in the table in the order of `providers.tsv`, vendors of their own models first.
pub(crate) static PROVIDERS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let lines = include_str!("providers.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('\t')).map(|(name, _)| name).collect()
});

/// Suffixes of model names at gateways that select a route, not another model.
const VARIANTS: &[&str] = &["free", "nitro", "floor", "thinking", "online", "extended", "exacto"];

/// Finds the row of `id` at `provider`, or at any provider: by the exact name, without the date at its end,
/// or without its route suffix.
pub(crate) fn find(provider: Option<&str>, id: &str) -> Option<Row> {
    find_with_or_without_date(provider, id).or_else(|| {
        let (bare, variant) = id.rsplit_once(':').filter(|(_, variant)| VARIANTS.contains(variant))?;
        let row = find_with_or_without_date(provider, bare)?;
        Some(if variant == "free" { row.for_nothing() } else { row })
    })
}

fn find_with_or_without_date(provider: Option<&str>, id: &str) -> Option<Row> {
    let named = |id: &str| match provider {
        Some(provider) => table::line(provider, id),
        None => PROVIDERS.iter().find_map(|provider| table::line(provider, id)),
    };
    named(id).or_else(|| named(without_date(id)?)).and_then(Row::read)
}

/// Returns the name without its date: `name-20260101` or `name-2026-01-01`.
fn without_date(id: &str) -> Option<&str> {
    let cut = id.trim_end_matches(|char: char| char.is_ascii_digit() || char == '-');
    let tail = id.get(cut.len()..)?;
    let digits = tail.bytes().filter(u8::is_ascii_digit).count();
    let date_at = [8, 10].into_iter().filter_map(|len| id.len().checked_sub(len + 1)).find(|at| {
        id.get(*at..)
            .is_some_and(|end| end.starts_with("-20") && end.bytes().filter(u8::is_ascii_digit).count() == 8)
    })?;
    if digits < 8 { None } else { id.get(..date_at) }
}

/// Returns up to three ids of `provider` in the table that are most similar to `id`, best first, for "did you
/// mean". Models that were shut down are left out.
///
/// ```
/// let found = zk_providers::near_matches("anthropic", "claude-sonet-5");
/// assert_eq!(found.first(), Some(&"claude-sonnet-5"));
/// ```
#[must_use]
pub fn near_matches(provider: &str, id: &str) -> Vec<&'static str> {
    served_near_matches(provider, id, SystemTime::now())
}

fn served_near_matches(provider: &str, id: &str, now: SystemTime) -> Vec<&'static str> {
    let id = id.to_lowercase();
    let mut found: Vec<(f64, &'static str)> = known_models(provider)
        .map(|known| (strsim::normalized_damerau_levenshtein(&id, &known.to_lowercase()), known))
        .filter(|(likeness, _)| *likeness > 0.6)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let is_served = |id: &&str| known_shutdown(provider, id).is_none_or(|end| !end.is_past(now));
    found.into_iter().map(|(_, id)| id).filter(is_served).take(3).collect()
}

/// Returns the provider name whose rows apply to `provider`, since two vendors can serve the same models.
fn catalogue_provider(provider: &str) -> &str {
    match Vendor::named(provider) {
        Some(vendor) => vendor.catalogue(),
        None => provider,
    }
}

/// Returns the ids of `provider` in the table, in alphabetical order.
///
/// ```
/// assert!(zk_providers::known_models("anthropic").any(|id| id == "claude-opus-5"));
/// ```
pub fn known_models(provider: &str) -> impl Iterator<Item = &'static str> {
    table::ids(catalogue_provider(provider))
}

/// Returns the providers in the table, vendors of their own models first.
///
/// ```
/// assert!(zk_providers::known_providers().contains(&"anthropic"));
/// ```
#[must_use]
pub fn known_providers() -> &'static [&'static str] {
    &PROVIDERS
}

/// Describes the model `id` of `provider` without a request, by the table and the provider's dialect.
///
/// ```
/// let model = zk_providers::known_model("mistral", "mistral-large-4").unwrap();
/// assert_eq!(model.window, Some(1_048_576));
/// assert!(zk_providers::known_model("mistral", "gpt-5").is_none());
/// ```
#[must_use]
pub fn known_model(provider: &str, id: &str) -> Option<Model> {
    let row = find(Some(catalogue_provider(provider)), id)?;
    let known = Vendor::named(provider).and_then(|vendor| vendor.describe_known(id));
    Some(known.unwrap_or_else(|| row.model(provider, id)))
}

/// Returns the effort levels that the table has for the model `id` of `provider`.
///
/// ```
/// let efforts = zk_providers::known_efforts("anthropic", "claude-opus-5");
/// assert!(efforts.levels().any(|(level, _)| level == "high"));
/// assert!(zk_providers::known_efforts("anthropic", "gpt-5").is_unknown());
/// ```
#[must_use]
pub fn known_efforts(provider: &str, id: &str) -> Efforts {
    find(Some(catalogue_provider(provider)), id).map(Row::efforts).unwrap_or_default()
}

/// Returns the day on which the model `id` of `provider` is shut down, if it was announced.
///
/// ```
/// assert!(zk_providers::known_shutdown("openai", "o1").is_some());
/// assert!(zk_providers::known_shutdown("openai", "gpt-6.1-sol").is_none());
/// ```
#[must_use]
pub fn known_shutdown(provider: &str, id: &str) -> Option<Shutdown> {
    find(Some(catalogue_provider(provider)), id)?.shutdown()
}

/// Returns the hint for a model that the provider does not know.
pub(crate) fn did_you_mean(provider: &str, id: &str, now: SystemTime) -> Option<String> {
    if let Some(end) = known_shutdown(provider, id).filter(|end| end.is_past(now)) {
        return Some(format!("It was shut down on {end}: choose another model"));
    }
    // A name that the provider refuses is no advice, even if the table lists it.
    let near: Vec<&str> =
        served_near_matches(provider, id, now).into_iter().filter(|near| *near != id).collect();
    let (last, others) = near.split_last()?;
    let names: Vec<String> = others.iter().map(|id| format!("`{id}`")).collect();
    Some(match names.is_empty() {
        true => format!("Did you mean `{last}`?"),
        false => format!("Did you mean {} or `{last}`?", names.join(", ")),
    })
}
