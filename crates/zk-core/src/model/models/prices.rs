#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Usage;

/// Prices of a model in US dollars per million tokens.
///
/// ```
/// use zk_core::model::{PriceTier, Prices, Rates, Usage};
///
/// let rates = Rates { input: 2.0, output: 12.0, ..Rates::default() };
/// let long = Rates { input: 4.0, output: 18.0, ..Rates::default() };
/// let prices = Prices { tiers: vec![PriceTier { above: 200_000, rates: long }], ..Prices::from(rates) };
/// let usage = |input| Usage { input, ..Usage::default() };
/// assert_eq!(prices.cost(&usage(200_000)), 0.4);
/// assert_eq!(prices.cost(&usage(250_000)), 1.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Prices {
    /// Rates of a request that no tier applies to.
    #[serde(flatten)]
    pub rates: Rates,
    /// Tiers with other rates for long inputs, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<PriceTier>,
}

/// US dollars per million tokens, by kind of token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Rates {
    /// Rate of uncached input.
    pub input: f64,
    /// Rate of output, reasoning included.
    pub output: f64,
    /// Rate of input read from the cache.
    pub cache_read: f64,
    /// Rate of input written to the cache.
    pub cache_write: f64,
}

/// Rates for requests with a long input. They apply to the whole request, not only to the tokens above the
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PriceTier {
    /// Input tokens, cached ones included, above which the tier applies.
    pub above: u64,
    /// Rates of the tier.
    #[serde(flatten)]
    pub rates: Rates,
}

/// Price of one-hour cache writes as a multiple of uncached input. Only Anthropic offers them.
const HOUR_FACTOR: f64 = 2.0;

impl Prices {
    /// Returns the cost of a response that used `usage`, in US dollars rounded to a billionth. Surcharges and
    /// discounts of a service tier are not included: a provider that knows the tier states the cost in
    /// [`Usage::billed`].
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> f64 {
        let context = usage.read();
        let tier = self.tiers.iter().filter(|tier| tier.above < context).max_by_key(|tier| tier.above);
        round_to_billionth(tier.map_or(self.rates, |tier| tier.rates).cost(usage))
    }
}

impl Rates {
    fn cost(self, usage: &Usage) -> f64 {
        let part = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        let for_an_hour = usage.cache_write_1h.min(usage.cache_write);
        part(usage.input, self.input)
            + part(usage.output, self.output)
            + part(usage.cache_read, self.cache_read)
            + part(usage.cache_write - for_an_hour, self.cache_write)
            + part(for_an_hour, self.input * HOUR_FACTOR)
    }
}

/// Rounds to a billionth of a dollar, which removes the errors of binary fractions.
pub(in crate::model) fn round_to_billionth(amount: f64) -> f64 {
    (amount * 1e9).round() / 1e9
}

impl From<Rates> for Prices {
    fn from(rates: Rates) -> Self {
        Self { rates, tiers: Vec::new() }
    }
}
