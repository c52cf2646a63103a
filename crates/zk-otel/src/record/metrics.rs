use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use zk_core::model::{ModelRef, Usage};

use super::text_attribute;
use crate::names;

/// Bounds of the buckets of durations, in seconds.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Bounds of the buckets of tokens.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Instruments of the semantic conventions, and zk's own for cost and cache.
pub(crate) struct Metrics {
    tokens: Histogram<u64>,
    durations: Histogram<f64>,
    first_chunks: Histogram<f64>,
    tools: Histogram<f64>,
    cost: Counter<f64>,
    cached: Counter<u64>,
}

impl Metrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, about: &'static str| {
            meter
                .f64_histogram(name)
                .with_unit("s")
                .with_description(about)
                .with_boundaries(SECONDS.to_vec())
                .build()
        };
        Self {
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Tokens of a request")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            durations: seconds("gen_ai.client.operation.duration", "Duration of requests and runs"),
            first_chunks: seconds(
                "gen_ai.client.operation.time_to_first_chunk",
                "Time until the answer begins to arrive",
            ),
            tools: seconds("gen_ai.execute_tool.duration", "Duration of calls"),
            cost: meter
                .f64_counter("zk.cost")
                .with_unit("USD")
                .with_description("Cost of requests, where prices are known")
                .build(),
            cached: meter
                .u64_counter("zk.cache.tokens")
                .with_unit("{token}")
                .with_description("Input tokens that were read from a cache or written to it")
                .build(),
        }
    }

    pub(super) fn record_operation(
        &self,
        operation: &'static str,
        model: Option<&ModelRef>,
        answered_by: Option<&str>,
        took: Duration,
        error: Option<&str>,
    ) {
        let mut attributes = attributes(operation, model, answered_by);
        attributes.extend(error.map(|error| text_attribute(names::ERROR_TYPE, error)));
        self.durations.record(took.as_secs_f64(), &attributes);
    }

    pub(super) fn record_first_chunk(
        &self,
        model: &ModelRef,
        answered_by: Option<&str>,
        after: Option<Duration>,
    ) {
        if let Some(after) = after {
            self.first_chunks.record(after.as_secs_f64(), &attributes("chat", Some(model), answered_by));
        }
    }

    pub(super) fn record_call(&self, tool: &str, took: Duration, error: Option<&str>) {
        let mut attributes =
            vec![text_attribute(names::OPERATION, "execute_tool"), text_attribute(names::TOOL_NAME, tool)];
        attributes.extend(error.map(|error| text_attribute(names::ERROR_TYPE, error)));
        self.tools.record(took.as_secs_f64(), &attributes);
    }

    pub(super) fn record_usage(
        &self,
        model: &ModelRef,
        answered_by: Option<&str>,
        usage: &Usage,
        cost: Option<f64>,
    ) {
        let of = |name: &'static str, value: &'static str| {
            let mut all = attributes("chat", Some(model), answered_by);
            all.push(text_attribute(name, value));
            all
        };
        for (kind, count) in [("input", usage.read()), ("output", usage.output)] {
            if count > 0 {
                self.tokens.record(count, &of(names::TOKEN_TYPE, kind));
            }
        }
        for (kind, count) in [("read", usage.cache_read), ("write", usage.cache_write)] {
            if count > 0 {
                self.cached.add(count, &of(names::CACHE_KIND, kind));
            }
        }
        if let Some(cost) = cost {
            self.cost.add(cost, &attributes("chat", Some(model), answered_by));
        }
    }
}

fn attributes(operation: &'static str, model: Option<&ModelRef>, answered_by: Option<&str>) -> Vec<KeyValue> {
    let mut all = vec![text_attribute(names::OPERATION, operation)];
    if let Some(model) = model {
        all.push(text_attribute(names::PROVIDER, names::provider(&model.provider)));
        all.push(text_attribute(names::REQUEST_MODEL, &*model.model));
    }
    all.extend(answered_by.map(|model| text_attribute(names::RESPONSE_MODEL, model)));
    all
}
