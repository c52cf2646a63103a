//! A smaller model beside another one.

use zk_core::model::Model;

use super::models::{known_model, known_models, known_shutdown};
use super::purposes::{SMALL, purpose};

/// Smallest window of a model for the parts of an agent, in tokens.
const MIN_WINDOW_TOKENS: u64 = 32_000;

/// Largest price, as a share of the other model's.
const MAX_PRICE_SHARE: f64 = 0.5;

/// Tokens that a part reads for each one that it writes.
const READ_FOR_WRITTEN: f64 = 10.0;

/// Returns the model of the same provider that is nearest to `model` among those for small tasks that cost at most
/// half as much; `None` if the table has none, or no price of `model`.
///
/// ```
/// let opus = zk_providers::known_model("anthropic", "claude-opus-5").unwrap();
/// let smaller = zk_providers::smaller_model(&opus).unwrap();
/// assert!(smaller.id.contains("haiku"));
/// assert!(zk_providers::smaller_model(&smaller).is_none());
/// ```
#[must_use]
pub fn smaller_model(model: &Model) -> Option<Model> {
    let most = price(model)? * MAX_PRICE_SHARE;
    let candidates = known_models(&model.provider)
        .filter(|id| known_shutdown(&model.provider, id).is_none())
        .filter_map(|id| known_model(&model.provider, id))
        .filter(|other| purpose(other) == Some(SMALL))
        .filter(|other| other.window.is_some_and(|tokens| tokens >= MIN_WINDOW_TOKENS))
        .filter_map(|other| Some((price(&other).filter(|price| *price > 0.0 && *price <= most)?, other)));
    // Of equal prices the last id in the alphabet is the newest as a rule, and an alias comes before its dates.
    let shorter = |id: &str| std::cmp::Reverse(id.len());
    let nearest = candidates.max_by(|(one, a), (other, b)| {
        one.total_cmp(other).then_with(|| shorter(&a.id).cmp(&shorter(&b.id)))
    });
    nearest.map(|(_, other)| other)
}

/// Price of a part's usual request, for each token that it writes.
fn price(model: &Model) -> Option<f64> {
    let rates = model.prices.as_ref()?.rates;
    Some(rates.input * READ_FOR_WRITTEN + rates.output)
}
