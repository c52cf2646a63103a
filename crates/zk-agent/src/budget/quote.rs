use std::sync::Arc;

use zk_core::model::{Budget, Message, Model, Spent, Usage, context_size};
use zk_core::service::Request;

/// Lower bound of the bytes of text per token, until a provider has reported counts. Three to four are usual.
const BYTES_PER_TOKEN: u64 = 2;

/// Tokens of a request in addition to its text.
const FRAME_TOKENS: u64 = 64;

/// Estimates the input tokens of a request from the provider's counts of earlier requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimator {
    last: Option<(u64, u64)>,
}

impl Estimator {
    /// Records the provider's token count for a request of `bytes` bytes.
    pub(crate) fn record_count(&mut self, bytes: u64, usage: &Usage) {
        if usage.context() > 0 {
            self.last = Some((bytes, usage.context()));
        }
    }

    /// Returns an upper bound of the input tokens of a request with `bytes` bytes.
    pub(crate) fn max_input_tokens(&self, bytes: u64) -> u64 {
        let counted = self.last.filter(|(before, _)| bytes >= *before);
        let (before, tokens) = counted.unwrap_or_default();
        tokens + (bytes - before) / BYTES_PER_TOKEN + FRAME_TOKENS
    }
}

/// Returns the size of a request in bytes of text.
pub(crate) fn request_bytes(request: &Request) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        tool.name.len()
            + tool.description.len()
            + serde_json::to_string(&tool.schema).map_or(0, |text| text.len())
    });
    bytes_of_messages(&request.system, request.history.messages()) + tools.sum::<usize>() as u64
}

fn bytes_of_messages(system: &str, messages: &[Arc<Message>]) -> u64 {
    (system.len() + context_size(messages)) as u64
}

/// Upper bound of a request's cost, as a function of the length of its answer.
#[derive(Clone, Debug)]
pub(crate) struct Quote<'a> {
    model: &'a Model,
    input: u64,
}

impl<'a> Quote<'a> {
    /// Creates a quote for a request to `model` with at most `input` input tokens.
    pub(crate) fn new(model: &'a Model, input: u64) -> Self {
        Self { model, input }
    }

    /// Returns the highest cost with `output` tokens of answer: no input is read from the cache, and all of
    /// it is written there if that costs more.
    pub(super) fn max_cost(&self, output: u32) -> Spent {
        let output = u64::from(output);
        let fresh = Usage { input: self.input, output, ..Usage::default() };
        let written = Usage { cache_write: self.input, output, ..Usage::default() };
        let cost = |usage: &Usage| self.model.cost(usage).unwrap_or_default();
        Spent { usd: cost(&fresh).max(cost(&written)), tokens: self.input + output }
    }

    /// Returns the longest answer in tokens, up to `limit`, that fits the budget: halves the limit until it
    /// fits.
    pub(super) fn longest_answer(&self, budget: &Budget, spent: Spent, limit: u32) -> u32 {
        let (mut fits, mut too_long) = (0, limit.saturating_add(1));
        if budget.allows(spent + self.max_cost(limit)) {
            return limit;
        }
        while too_long - fits > 1 {
            let middle = fits + (too_long - fits) / 2;
            if budget.allows(spent + self.max_cost(middle)) { fits = middle } else { too_long = middle }
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use zk_core::model::Rates;

    use super::*;

    fn model() -> Model {
        let rates = Rates { input: 1.0, output: 10.0, cache_read: 0.1, cache_write: 1.25 };
        Model { prices: Some(rates.into()), ..Model::unknown("p", "m") }
    }

    #[test]
    fn a_request_is_quoted_as_if_nothing_was_cached() {
        let most = Quote::new(&model(), 1_000_000).max_cost(100_000);
        assert_eq!(most, Spent { usd: 2.25, tokens: 1_100_000 });
    }

    #[test]
    fn the_longest_answer_is_the_last_that_fits() {
        let model = model();
        let quote = Quote::new(&model, 0);
        for (budget, longest) in [
            (Budget::usd(1.0), 4_096),
            (Budget::usd(0.01), 1_000),
            (Budget::usd(0.0), 0),
            (Budget::tokens(77), 77),
            (Budget { usd: Some(0.01), tokens: Some(50) }, 50),
        ] {
            assert_eq!(quote.longest_answer(&budget, Spent::default(), 4_096), longest, "{budget}");
        }
    }

    #[test]
    fn counted_tokens_are_not_estimated_again() {
        let mut estimator = Estimator::default();
        assert_eq!(estimator.max_input_tokens(1_000), 564);
        estimator.record_count(1_000, &Usage { input: 200, cache_read: 100, ..Usage::default() });
        assert_eq!(estimator.max_input_tokens(1_000), 364);
        assert_eq!(estimator.max_input_tokens(1_200), 464);
        assert_eq!(estimator.max_input_tokens(400), 264, "a shorter request is another one");
    }
}
