//! Effect of a service tier on the prices of a model: a table, so that a new tier is a new row.

use zk_core::model::{Model, Prices, Usage};

/// Vendor of the tier, its name in answers, how the names of the models begin that it holds for, and by how
/// much it multiplies their prices. The first row that fits counts; a tier without one costs what the table
/// says.
const TIERS: &[(&str, &str, &str, f64)] = &[
    ("openai", "flex", "", 0.5),
    ("openai", "priority", "gpt-5.5", 2.5),
    ("openai", "priority", "", 2.0),
    // The newer name of the same.
    ("openai", "fast", "gpt-5.5", 2.5),
    ("openai", "fast", "", 2.0),
];

/// The tiers of one model and what it costs without them.
#[derive(Default)]
pub(crate) struct Tiers {
    rows: Vec<(&'static str, f64)>,
    prices: Option<Prices>,
}

impl Tiers {
    /// The tiers of `model` at the vendor whose part of the table of models it stands in.
    pub(crate) fn of(vendor: &str, model: &Model) -> Self {
        let holds = |of: &str, start: &str| of == vendor && model.id.starts_with(start);
        let rows = TIERS.iter().filter(|(of, _, start, _)| holds(of, start));
        Self {
            rows: rows.map(|(_, tier, _, factor)| (*tier, *factor)).collect(),
            prices: model.prices.clone(),
        }
    }

    /// `usage` with what it costs in the tier that answered, unless that is known already.
    pub(crate) fn billed(&self, usage: Usage, tier: &str) -> Usage {
        let factor = self.rows.iter().find(|(name, _)| *name == tier).map(|(_, factor)| factor);
        let dollars = factor.zip(self.prices.as_ref()).map(|(factor, prices)| prices.cost(&usage) * factor);
        Usage { billed: usage.billed.or(dollars.map(|dollars| (dollars * 1e9).round() as u64)), ..usage }
    }
}
