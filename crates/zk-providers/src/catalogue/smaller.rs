//! A smaller model beside another one.

use zk_core::model::Model;

use super::models::{known_model, known_models, known_shutdown};
use super::purposes::{SMALL, purpose};

/// Smallest window of a model for the parts of an agent, in tokens.
const MIN_WINDOW_TOKENS: u64 = 32_000;

/// Largest price, as a share of the other model's.
const MAX_PRICE_SHARE: f64 = 0.5;

/// Input tokens per output token in the usual requests of an agent's parts, such as compaction.
const READ_FOR_WRITTEN: f64 = 10.0;

/// Returns the newest model of the same provider among those for small tasks that cost at most half as much as `model`;
/// of several the dearest, which is nearest to it. `None` if the table has none, or no price of `model`.
///
/// ```
/// let opus = zk_providers::known_model("anthropic", "claude-opus-5").unwrap();
/// let smaller = zk_providers::smaller_model(&opus).unwrap();
/// assert!(smaller.id.contains("haiku"));
/// assert!(zk_providers::smaller_model(&smaller).is_none());
/// ```
#[must_use]
pub fn smaller_model(model: &Model) -> Option<Model> {
    let most = price_per_output_token(model)? * MAX_PRICE_SHARE;
    let candidates = known_models(&model.provider)
        .filter(|id| known_shutdown(&model.provider, id).is_none())
        .filter_map(|id| known_model(&model.provider, id))
        .filter(|other| purpose(other) == Some(SMALL))
        .filter(|other| other.window.is_some_and(|tokens| tokens >= MIN_WINDOW_TOKENS))
        .filter_map(|other| {
            Some((price_per_output_token(&other).filter(|price| *price > 0.0 && *price <= most)?, other))
        });
    let nearest = candidates.max_by(|(one, a), (other, b)| {
        // Of equal models an alias comes before its dates.
        let by_length = b.id.len().cmp(&a.id.len());
        version(&a.id).cmp(&version(&b.id)).then(one.total_cmp(other)).then(by_length)
    });
    nearest.map(|(_, other)| other)
}

/// Numbers in an id, without dates: the newest model of a provider has the highest.
fn version(id: &str) -> Vec<u32> {
    let numbers = id.split(|c: char| !c.is_ascii_digit()).filter(|digits| digits.len() < 4);
    numbers.filter_map(|digits| digits.parse().ok()).collect()
}

/// Price of a usual request of an agent's part per output token, its input tokens included.
fn price_per_output_token(model: &Model) -> Option<f64> {
    let rates = model.prices.as_ref()?.rates;
    Some(rates.input * READ_FOR_WRITTEN + rates.output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_id_and_dates_are_none() {
        assert_eq!(version("claude-haiku-4-5-20251001"), [4, 5]);
        assert_eq!(version("gpt-6.1-luna"), [6, 1]);
        assert!(version("claude-haiku-5-5") > version("claude-haiku-4-5"));
        assert_eq!(version("mistral-small-2506"), [0_u32; 0]);
    }

    #[test]
    fn models_for_parts_cost_half_at_most_and_are_served() {
        for (provider, id) in [("anthropic", "claude-opus-5"), ("openai", "gpt-6.1-sol")] {
            let model = known_model(provider, id).unwrap();
            let smaller = smaller_model(&model).unwrap();
            assert!(
                price_per_output_token(&smaller).unwrap() <= price_per_output_token(&model).unwrap() / 2.0,
                "{smaller:?}"
            );
            assert!(known_shutdown(provider, &smaller.id).is_none(), "{smaller:?}");
        }
        assert!(smaller_model(&Model::unknown("lab", "m")).is_none());
    }
}
