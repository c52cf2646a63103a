//! Facts about models before any server is asked: a generated table, `models.tsv`, and what somebody says
//! instead.

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

/// The providers of the table, those that serve their own models first, as `providers.tsv` lists them.
pub(crate) static PROVIDERS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let lines = include_str!("providers.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('\t')).map(|(name, _)| name).collect()
});

/// Suffixes that gateways take behind the name of a model: where to send a request, not to another model.
const VARIANTS: &[&str] = &["free", "nitro", "floor", "thinking", "online", "extended", "exacto"];

/// The row of `id` at `provider`, or at any provider: by its name, else without the date at its end, else
/// without its variant.
pub(crate) fn find(provider: Option<&str>, id: &str) -> Option<Row> {
    dated(provider, id).or_else(|| {
        let (bare, variant) = id.rsplit_once(':').filter(|(_, variant)| VARIANTS.contains(variant))?;
        let row = dated(provider, bare)?;
        Some(if variant == "free" { row.for_nothing() } else { row })
    })
}

fn dated(provider: Option<&str>, id: &str) -> Option<Row> {
    let named = |id: &str| match provider {
        Some(provider) => table::line(provider, id),
        None => PROVIDERS.iter().find_map(|provider| table::line(provider, id)),
    };
    named(id).or_else(|| named(without_date(id)?)).and_then(Row::read)
}

/// `name-20260101` and `name-2026-01-01` without their end.
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

/// The ids of `provider` in the table that look most like `id`, best first, at most three: for "did you mean".
/// Models that were shut down are none of them.
///
/// ```
/// let found = zk_providers::near_matches("anthropic", "claude-sonet-5");
/// assert_eq!(found.first(), Some(&"claude-sonnet-5"));
/// ```
#[must_use]
pub fn near_matches(provider: &str, id: &str) -> Vec<&'static str> {
    served_near(provider, id, SystemTime::now())
}

fn served_near(provider: &str, id: &str, now: SystemTime) -> Vec<&'static str> {
    let id = id.to_lowercase();
    let mut found: Vec<(f64, &'static str)> = known_models(provider)
        .map(|known| (strsim::normalized_damerau_levenshtein(&id, &known.to_lowercase()), known))
        .filter(|(likeness, _)| *likeness > 0.6)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let is_served = |id: &&str| known_shutdown(provider, id).is_none_or(|end| !end.is_past(now));
    found.into_iter().map(|(_, id)| id).filter(is_served).take(3).collect()
}

/// The name under which the models of `provider` stand in the table: two vendors can serve the same ones.
fn listed_at(provider: &str) -> &str {
    match Vendor::named(provider) {
        Some(vendor) => vendor.catalogue(),
        None => provider,
    }
}

/// The ids of `provider` in the table, in alphabetical order.
///
/// ```
/// assert!(zk_providers::known_models("anthropic").any(|id| id == "claude-opus-5"));
/// ```
pub fn known_models(provider: &str) -> impl Iterator<Item = &'static str> {
    table::ids(listed_at(provider))
}

/// The providers of the table, those that serve their own models first.
///
/// ```
/// assert!(zk_providers::known_providers().contains(&"anthropic"));
/// ```
#[must_use]
pub fn known_providers() -> &'static [&'static str] {
    &PROVIDERS
}

/// Describes the model `id` of `provider` as it is known before any server is asked, by the table and by the
/// dialect that `provider` speaks.
///
/// ```
/// let model = zk_providers::known_model("mistral", "mistral-large-4").unwrap();
/// assert_eq!(model.window, Some(1_048_576));
/// assert!(zk_providers::known_model("mistral", "gpt-5").is_none());
/// ```
#[must_use]
pub fn known_model(provider: &str, id: &str) -> Option<Model> {
    let row = find(Some(listed_at(provider)), id)?;
    let known = Vendor::named(provider).and_then(|vendor| vendor.knows(id));
    Some(known.unwrap_or_else(|| row.model(provider, id)))
}

/// The levels of effort that the table knows of the model `id` of `provider`.
///
/// ```
/// let efforts = zk_providers::known_efforts("anthropic", "claude-opus-5");
/// assert!(efforts.levels().any(|(level, _)| level == "high"));
/// assert!(zk_providers::known_efforts("anthropic", "gpt-5").is_unknown());
/// ```
#[must_use]
pub fn known_efforts(provider: &str, id: &str) -> Efforts {
    find(Some(listed_at(provider)), id).map(Row::efforts).unwrap_or_default()
}

/// Returns when the model `id` of `provider` is shut down, if the table knows a day.
///
/// ```
/// assert!(zk_providers::known_shutdown("openai", "o1").is_some());
/// assert!(zk_providers::known_shutdown("openai", "gpt-6.1-sol").is_none());
/// ```
#[must_use]
pub fn known_shutdown(provider: &str, id: &str) -> Option<Shutdown> {
    find(Some(listed_at(provider)), id)?.shutdown()
}

/// Advice on a model the provider does not know.
pub(crate) fn did_you_mean(provider: &str, id: &str, now: SystemTime) -> Option<String> {
    if let Some(end) = known_shutdown(provider, id).filter(|end| end.is_past(now)) {
        return Some(format!("It was shut down on {end}: choose another model"));
    }
    // A name that is refused is no advice, whatever the table says.
    let near: Vec<&str> = served_near(provider, id, now).into_iter().filter(|near| *near != id).collect();
    let (last, others) = near.split_last()?;
    let names: Vec<String> = others.iter().map(|id| format!("`{id}`")).collect();
    Some(match names.is_empty() {
        true => format!("Did you mean `{last}`?"),
        false => format!("Did you mean {} or `{last}`?", names.join(", ")),
    })
}
