//! From what a person calls a model to the provider and the id there.

use std::time::SystemTime;

use super::{PROVIDERS, find, known_models, known_shutdown, listed_at, near_matches};
use crate::facts::vendors::Vendor;

/// A model by the names a request has for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedModel {
    /// The provider; nothing where the name says none and the table knows none.
    pub provider: Option<String>,
    /// The id at that provider.
    pub id: String,
    /// Whether the table has it. Servers of one's own and new models are in no table.
    pub is_known: bool,
    /// The ids at that provider that look most like an unknown one, best first, at most three.
    pub near: Vec<&'static str>,
}

/// A family, whose newest model its name stands for. `#` is the version.
struct Family {
    name: &'static str,
    /// Who makes it.
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

/// What `name` means: an id, `provider/id` as lists of models print it, or a family such as `opus`, which stands for
/// its newest model in the table. `provider` is the one chosen already, if one is; `own` are providers that only
/// settings know. A name that nobody knows is taken as the id that it may be.
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
        // Gateways have ids with a maker's name before them, which is no provider's then.
        if is_known(provider, name) {
            return at(provider, name);
        }
        let behind = name.split_once('/').filter(|(first, _)| *first == provider).map(|(_, id)| id);
        if let Some(id) = behind.filter(|id| is_known(provider, id)) {
            return at(provider, id);
        }
        if let Some(id) = newest(provider, behind.unwrap_or(name)) {
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
    if let Some((first, id)) = name.split_once('/')
        && (Vendor::named(first).is_some() || own.contains(&first))
    {
        return at(first, newest(first, id).filter(|_| !is_known(first, id)).unwrap_or(id));
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
    let near = PROVIDERS.iter().map(|provider| near_matches(provider, name)).find(|near| !near.is_empty());
    ResolvedModel { provider: None, id: name.to_owned(), is_known: false, near: near.unwrap_or_default() }
}

fn is_known(provider: &str, id: &str) -> bool {
    find(Some(listed_at(provider)), id).is_some()
}

fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name.eq_ignore_ascii_case(name))
}

/// The newest model that `provider` serves of the family `name`.
fn newest(provider: &str, name: &str) -> Option<&'static str> {
    let family = family(name)?;
    let now = SystemTime::now();
    let is_served = |id: &str| known_shutdown(provider, id).is_none_or(|end| !end.is_past(now));
    known_models(provider)
        .filter_map(|id| {
            // Gateways put the maker before it.
            let bare = id.rsplit('/').next().unwrap_or(id);
            let place = |pattern: &&str| Some((version(bare, pattern)?, id));
            family.ids.iter().filter_map(place).max()
        })
        .filter(|(_, id)| is_served(id))
        // Of two places for the same version it is the shorter name: the plain model.
        .max_by(|(one, a), (two, b)| one.cmp(two).then(b.len().cmp(&a.len())))
        .map(|(_, id)| id)
}

/// The version that stands where `pattern` has its `#`: `4-8` and `4.8` are the same, and a date is none.
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
