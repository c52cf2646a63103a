//! Token counts of a response, and of all responses that the provider combined into it.

use serde_json::Value;
use zk_core::model::{Prices, Usage};

/// Prices for combined responses.
pub(super) struct Pricing {
    /// Id of the requested model.
    pub(super) asked: String,
    pub(super) prices: Option<Prices>,
    pub(super) of_others: Lookup,
}

/// Function that returns the prices of a model.
pub(super) type Lookup = Box<dyn Fn(&str) -> Option<Prices> + Send + Sync>;

/// Counts received so far.
#[derive(Default)]
pub(super) struct UsageCounts {
    pricing: Option<Pricing>,
    /// Counts of the final answer alone.
    answer: Usage,
    parts: Vec<Part>,
    /// Counts of all responses together.
    usage: Usage,
}

/// One of the responses that were combined.
struct Part {
    usage: Usage,
    /// Id of the model, if it may differ from the requested one.
    model: Option<String>,
    is_answer: bool,
}

impl UsageCounts {
    pub(super) fn priced(pricing: Pricing) -> Self {
        Self { pricing: Some(pricing), ..Self::default() }
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Updates the counts that are present; others stay. Returns whether anything changed.
    pub(super) fn update(&mut self, counts: &Value) -> bool {
        read_counts(counts, &mut self.answer);
        if let Some(all) = counts.get("iterations").and_then(Value::as_array) {
            self.parts = parts(all);
        }
        let is_plain = match &*self.parts {
            [] => true,
            [one] => one.is_answer && one.model.is_none(),
            [..] => false,
        };
        let usage = if is_plain { self.answer } else { self.sum() };
        std::mem::replace(&mut self.usage, usage) != usage
    }

    /// Adds up all parts. The counts of the answer do not include compactions and advisors.
    fn sum(&self) -> Usage {
        let parts = &self.parts;
        let mut sum = Usage::default();
        parts.iter().for_each(|part| sum += part.usage);
        // These two counts are reported for the whole answer only, if at all.
        sum.cache_write_1h = sum.cache_write_1h.max(self.answer.cache_write_1h).min(sum.cache_write);
        sum.reasoning = sum.reasoning.max(self.answer.reasoning).min(sum.output);
        let last = parts.iter().rev().find(|part| part.is_answer);
        sum.last_read = last.map(|part| part.usage.read());
        let mut billed = Some(0.0);
        for part in parts {
            let (prices, is_other) = self.prices(part);
            if prices.is_none() && is_other {
                sum.unpriced += part.usage.read() + part.usage.output;
            }
            billed = billed.zip(prices).map(|(sum, prices)| sum + prices.cost(&part.usage));
        }
        sum.billed = billed.map(|dollars: f64| (dollars * 1e9).round() as u64);
        sum
    }

    /// Returns the prices of a part, and whether another model than the requested one made it.
    fn prices(&self, part: &Part) -> (Option<Prices>, bool) {
        match (&self.pricing, &part.model) {
            (Some(pricing), Some(model)) if *model != pricing.asked => ((pricing.of_others)(model), true),
            (Some(pricing), _) => (pricing.prices.clone(), false),
            (None, model) => (None, model.is_some()),
        }
    }
}

fn parts(all: &[Value]) -> Vec<Part> {
    let is_fallback = |entry: &Value| kind(entry) == "fallback_message";
    let fallback = all.iter().rposition(is_fallback).unwrap_or_default();
    let part = |(at, entry): (usize, &Value)| {
        let mut usage = Usage::default();
        read_counts(entry, &mut usage);
        let is_answer = matches!(kind(entry), "message" | "fallback_message");
        // An answer that was refused before any output is not billed.
        let is_free = is_answer && at < fallback && usage.output == 0;
        let named = entry.get("model").filter(|_| kind(entry) != "message");
        let model = named.and_then(Value::as_str).map(str::to_owned);
        (!is_free).then_some(Part { usage, model, is_answer })
    };
    all.iter().enumerate().filter_map(part).collect()
}

fn kind(entry: &Value) -> &str {
    entry.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Reads the counts that are present into `usage`.
fn read_counts(counts: &Value, usage: &mut Usage) {
    for (count, path) in [
        (&mut usage.input, "/input_tokens"),
        (&mut usage.output, "/output_tokens"),
        (&mut usage.cache_read, "/cache_read_input_tokens"),
        (&mut usage.cache_write, "/cache_creation_input_tokens"),
        (&mut usage.cache_write_1h, "/cache_creation/ephemeral_1h_input_tokens"),
        (&mut usage.reasoning, "/output_tokens_details/thinking_tokens"),
    ] {
        if let Some(value) = counts.pointer(path).and_then(Value::as_u64) {
            *count = value;
        }
    }
}
