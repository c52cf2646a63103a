/// Maximum number of names that are compared with a missing name.
const MAX_NAMES: usize = 2_000;

/// Suggests existing names similar to a missing name, as `; did you mean …`.
pub(super) fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let mut scored: Vec<(f64, String)> = names
        .take(MAX_NAMES)
        .map(|name| (likeness(wanted, &name), name))
        .filter(|(score, _)| *score >= 0.6)
        .collect();
    scored.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.cmp(y)));
    let names: Vec<String> = scored.into_iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
    if names.is_empty() { None } else { Some(format!("; did you mean {}?", names.join(" or "))) }
}

fn likeness(wanted: &str, name: &str) -> f64 {
    let (wanted, name) = (wanted.to_lowercase(), name.to_lowercase());
    let stem = |text: &str| text.split('.').next().unwrap_or_default().to_owned();
    let whole = strsim::normalized_damerau_levenshtein(&wanted, &name);
    // Names that differ in their extension only are alike: `config.yml` and `config.yaml`, `main.ts` and
    // `main.js`.
    if stem(&wanted) == stem(&name) && !stem(&name).is_empty() { whole.max(0.8) } else { whole }
}
