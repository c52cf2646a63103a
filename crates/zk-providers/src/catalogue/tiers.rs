//! Price factors of service tiers.

use zk_core::model::{Model, Prices, Usage};

/// Rows of vendor, tier name in responses, prefix of the models, and price factor. The first matching row
/// counts; a tier without a row costs the model's normal price.
const TIERS: &[(&str, &str, &str, f64)] = &[
    ("openai", "flex", "", 0.5),
    ("openai", "priority", "gpt-5.5", 2.5),
    ("openai", "priority", "", 2.0),
    // Newer name of the same tier.
    ("openai", "fast", "gpt-5.5", 2.5),
    ("openai", "fast", "", 2.0),
];

/// Tiers of one model, with its normal prices.
#[derive(Default)]
pub(crate) struct Tiers {
    rows: Vec<(&'static str, f64)>,
    prices: Option<Prices>,
}

impl Tiers {
    /// Returns the tiers of `model` at `vendor`, whose rows in the table of models are used.
    pub(crate) fn of(vendor: &str, model: &Model) -> Self {
        let holds = |of: &str, start: &str| of == vendor && model.id.starts_with(start);
        let rows = TIERS.iter().filter(|(of, _, start, _)| holds(of, start));
        Self {
            rows: rows.map(|(_, tier, _, factor)| (*tier, *factor)).collect(),
            prices: model.prices.clone(),
        }
    }

    /// Sets the billed cost of `usage` by the tier that answered, unless the cost is known already.
    pub(crate) fn with_billed_cost(&self, usage: Usage, tier: &str) -> Usage {
        let factor = self.rows.iter().find(|(name, _)| *name == tier).map(|(_, factor)| factor);
        let dollars = factor.zip(self.prices.as_ref()).map(|(factor, prices)| prices.cost(&usage) * factor);
        Usage { billed: usage.billed.or(dollars.map(|dollars| (dollars * 1e9).round() as u64)), ..usage }
    }
}
