//! Resolves a model name of a person to a provider and the model's id there.

use std::time::SystemTime;

use super::{PROVIDERS, catalogue_provider, find, known_models, known_shutdown, near_matches};
use crate::catalogue::vendors::Vendor;

/// Result of resolving a model name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedModel {
    /// Name of the provider; `None` if neither the name nor the table tells it.
    pub provider: Option<String>,
    /// Id of the model at that provider.
    pub id: String,
    /// Whether the table has the model. Models of own servers and new models are missing there.
    pub is_known: bool,
    /// Up to three ids at that provider that are most similar to an unknown one, best first.
    pub near: Vec<&'static str>,
}

/// A family of models, whose name stands for its newest model. In the pattern, `#` is the version.
struct Family {
    name: &'static str,
    /// Vendor that makes the models.
    maker: &'static str,
    ids: &'static [&'static str],
}

const FAMILIES: &[Family] = &[
    Family { name: "claude", maker: "anthropic", ids: &["claude-sonnet-#"] },
    Family { name: "opus", maker: "anthropic", ids: &["claude-opus-#"] },
    Family { name: "sonnet", maker: "anthropic", ids: &["claude-sonnet-#"] },
    Family { name: "haiku", maker: "anthropic", ids: &["claude-haiku-#"] },
    Family { name: "fable", maker: "anthropic", ids: &["claude-fable-#"] },
    Family { name: "gpt", maker: "openai", ids: &["gpt-#", "gpt-#-sol"] },
    Family { name: "gpt-mini", maker: "openai", ids: &["gpt-#-mini", "gpt-#-luna"] },
    Family { name: "gpt-pro", maker: "openai", ids: &["gpt-#-pro"] },
    Family { name: "gpt-codex", maker: "openai", ids: &["gpt-#-codex"] },
    Family { name: "gemini", maker: "gemini", ids: &["gemini-#-pro", "gemini-#-pro-preview"] },
    Family { name: "gemini-pro", maker: "gemini", ids: &["gemini-#-pro", "gemini-#-pro-preview"] },
    Family { name: "gemini-flash", maker: "gemini", ids: &["gemini-#-flash", "gemini-#-flash-preview"] },
    Family { name: "gemini-flash-lite", maker: "gemini", ids: &["gemini-#-flash-lite"] },
    Family { name: "grok", maker: "xai", ids: &["grok-#"] },
    Family { name: "deepseek", maker: "deepseek", ids: &["deepseek-v#-pro", "deepseek-v#"] },
    Family { name: "deepseek-flash", maker: "deepseek", ids: &["deepseek-v#-flash"] },
    Family { name: "kimi", maker: "moonshot", ids: &["kimi-k#", "kimi-k#-pro"] },
    Family { name: "glm", maker: "zai", ids: &["glm-#"] },
    Family { name: "minimax", maker: "minimax", ids: &["minimax-m#"] },
];

/// Resolves `name`: an id, `provider/id` as printed in lists of models, or a family such as `opus`, which
/// stands for its newest model in the table. `provider` is the provider that is already chosen, if any; `own`
/// are providers that only settings know. An unknown name is taken as an id.
///
/// ```
/// use zk_providers::resolve_model;
///
/// let model = resolve_model("anthropic/claude-opus-5", Some("anthropic"), &[]);
/// assert_eq!((model.provider.as_deref(), &*model.id), (Some("anthropic"), "claude-opus-5"));
/// assert!(resolve_model("opus", None, &[]).id.starts_with("claude-opus-"));
/// assert_eq!(resolve_model("claude-sonet-5", Some("anthropic"), &[]).near[0], "claude-sonnet-5");
/// ```
#[must_use]
pub fn resolve_model(name: &str, provider: Option<&str>, own: &[&str]) -> ResolvedModel {
    let name = name.trim();
    let at = |provider: &str, id: &str| {
        let is_known = is_known(provider, id);
        let near = if is_known { Vec::new() } else { near_matches(provider, id) };
        ResolvedModel { provider: Some(provider.to_owned()), id: id.to_owned(), is_known, near }
    };
    if let Some(provider) = provider {
        // At gateways an id begins with a maker's name, which does not name a provider then.
        if is_known(provider, name) {
            return at(provider, name);
        }
        let behind =
            name.split_once('/').filter(|(first, _)| first.eq_ignore_ascii_case(provider)).map(|(_, id)| id);
        if let Some(id) = behind.filter(|id| is_known(provider, id)) {
            return at(provider, id);
        }
        let short = behind.unwrap_or(name);
        if let Some(id) = newest(provider, short).or_else(|| newest_by_part(provider, short)) {
            return at(provider, id);
        }
        if let Some(id) = behind {
            return at(provider, id);
        }
        let is_gateway = known_models(provider).any(|id| id.contains('/'));
        let is_open = known_models(provider).next().is_none();
        if is_gateway || is_open {
            return at(provider, name);
        }
    }
    if let Some((first, id)) = name.split_once('/') {
        let lower = first.to_lowercase();
        let named = [first, &*lower].into_iter().find(|it| Vendor::named(it).is_some() || own.contains(it));
        if let Some(first) = named {
            let found = || newest(first, id).or_else(|| newest_by_part(first, id));
            return at(first, if is_known(first, id) { id } else { found().unwrap_or(id) });
        }
    }
    if let Some(provider) = provider {
        return at(provider, name);
    }
    if let Some(provider) = PROVIDERS.iter().find(|provider| is_known(provider, name)) {
        return at(provider, name);
    }
    if let Some(family) = family(name)
        && let Some(id) = newest(family.maker, name)
    {
        return at(family.maker, id);
    }
    if let Some((provider, id)) = PROVIDERS.iter().find_map(|it| Some((*it, newest_by_part(it, name)?))) {
        return at(provider, id);
    }
    let near = PROVIDERS.iter().map(|provider| near_matches(provider, name)).find(|near| !near.is_empty());
    ResolvedModel { provider: None, id: name.to_owned(), is_known: false, near: near.unwrap_or_default() }
}

fn is_known(provider: &str, id: &str) -> bool {
    find(Some(catalogue_provider(provider)), id).is_some()
}

fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name.eq_ignore_ascii_case(name))
}

/// Returns the newest model of the family `name` at `provider`.
fn newest(provider: &str, name: &str) -> Option<&'static str> {
    let family = family(name)?;
    let now = SystemTime::now();
    let is_served = |id: &str| known_shutdown(provider, id).is_none_or(|end| !end.is_past(now));
    known_models(provider)
        .filter_map(|id| {
            // Gateways prefix the id with the maker.
            let bare = id.rsplit('/').next().unwrap_or(id);
            let place = |pattern: &&str| Some((version(bare, pattern)?, id));
            family.ids.iter().filter_map(place).max()
        })
        .filter(|(_, id)| is_served(id))
        // For the same version, the shorter id is the plain model.
        .max_by(|(one, a), (two, b)| one.cmp(two).then(b.len().cmp(&a.len())))
        .map(|(_, id)| id)
}

/// Returns the newest model at `provider` whose id equals `name` up to case, or ends in `name` followed by at
/// most a version and a date: `claude-opus-4-5` for `opus-4`, but never `gpt-5-mini` for `gpt-5`.
fn newest_by_part(provider: &str, name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let (now, has_letter) = (SystemTime::now(), name.contains(|c: char| c.is_ascii_alphabetic()));
    let is_served = |id: &str| known_shutdown(provider, id).is_none_or(|end| !end.is_past(now));
    if let Some(id) = known_models(provider).find(|id| id.eq_ignore_ascii_case(&name)) {
        return Some(id);
    }
    known_models(provider)
        .filter(|id| has_letter && is_served(id))
        .filter_map(|id| Some((versions_behind(&id.to_lowercase(), &name)?, id)))
        .max_by(|(one, a), (two, b)| one.cmp(two).then(b.len().cmp(&a.len())))
        .map(|(_, id)| id)
}

/// Returns the version numbers, without dates, that follow `name` in `id`; `None` if other text follows.
fn versions_behind(id: &str, name: &str) -> Option<Vec<u32>> {
    let (before, behind) = id.rsplit_once(name)?;
    let begins = before.is_empty() || before.ends_with(['-', '/']);
    if !begins || !(behind.is_empty() || behind.starts_with(['-', '.'])) {
        return None;
    }
    let numbers = behind.split(['-', '.']).filter(|part| !part.is_empty());
    let numbers: Option<Vec<(usize, u32)>> =
        numbers.map(|part| Some((part.len(), part.parse().ok()?))).collect();
    Some(numbers?.into_iter().filter(|(length, _)| *length <= 2).map(|(_, number)| number).collect())
}

/// Returns the version in place of the `#` of `pattern`: `4-8` and `4.8` are equal, and a date does not
/// count.
fn version(id: &str, pattern: &str) -> Option<Vec<u32>> {
    let id = id.to_lowercase();
    let (before, behind) = pattern.split_once('#')?;
    let digits = id.strip_prefix(before)?.strip_suffix(behind)?;
    let numbers = digits.split(['-', '.']).map(|part| {
        let is_number = (1..=2).contains(&part.len());
        part.parse().ok().filter(|_| is_number)
    });
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_be_named_by_its_end_without_version_and_in_any_case() {
        let id = |name: &str, provider| resolve_model(name, provider, &[]).id;
        for provider in [None, Some("anthropic")] {
            assert!(id("opus-4", provider).starts_with("claude-opus-4"), "{}", id("opus-4", provider));
            assert_eq!(id("Anthropic/Claude-Opus-5", provider), "claude-opus-5");
            assert_eq!(id("Claude-Opus-5", provider), "claude-opus-5");
        }
        assert_eq!(id("claude-new-thing", Some("anthropic")), "claude-new-thing");
    }

    #[test]
    fn a_part_of_an_id_matches_a_version_after_it_and_no_other_model() {
        assert_eq!(versions_behind("claude-opus-4-5", "opus-4"), Some(vec![5]));
        assert_eq!(versions_behind("claude-opus-4-20250514", "opus-4"), Some(vec![]));
        assert_eq!(versions_behind("gpt-5-mini", "gpt-5"), None);
        assert_eq!(versions_behind("claude-opus-45", "opus-4"), None);
        assert_eq!(versions_behind("magnum-opus", "um-opus"), None);
    }
}
