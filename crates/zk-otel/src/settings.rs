use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::parse_pairs;

/// Variables of the standard with headers.
const HEADER_VARIABLES: [&str; 3] =
    ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"];

/// Traces and metrics for an OpenTelemetry collector. The standard's variables, such as
/// `OTEL_EXPORTER_OTLP_ENDPOINT`, outrank it.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-guarded" = true, "x-by-projects" = false))]
pub struct OtelSettings {
    /// Whether traces and metrics are sent; without it, if there is an endpoint.
    pub enabled: Option<bool>,
    /// Address of the collector, such as `http://127.0.0.1:4318`, which is where it is looked for without one.
    #[schemars(regex(pattern = "^https?://"))]
    #[schemars(extend("x-expected" = "an address that begins with http:// or https://"))]
    pub endpoint: Option<String>,
    /// Headers of requests to the collector, such as one with a key.
    #[schemars(extend("x-secret" = true))]
    pub headers: BTreeMap<String, String>,
    /// Name of this program in traces; `zk` without one.
    pub service_name: Option<String>,
    /// Whether prompts, arguments, results and answers are sent too, without secrets.
    pub content: bool,
    /// Share of traces that is sent, from 0 to 1; all without it.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample: Option<f64>,
}

impl OtelSettings {
    /// Returns the secrets in headers of the settings and of the standard's variables: whole values, and the
    /// part after `Bearer` or `Basic`.
    pub fn secrets(&self, variable: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let variables = HEADER_VARIABLES.iter().filter_map(|name| parse_pairs(name, variable(name)).ok());
        let of_variables = variables.flat_map(BTreeMap::into_values);
        let both = |value: String| {
            let schemes = ["Bearer ", "Basic "];
            let behind = schemes.iter().find_map(|scheme| value.strip_prefix(scheme)).map(str::to_owned);
            std::iter::once(value).chain(behind)
        };
        self.headers.values().cloned().chain(of_variables).flat_map(both).collect()
    }
}

impl fmt::Debug for OtelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers are omitted, since they contain keys.
        f.debug_struct("OtelSettings")
            .field("enabled", &self.enabled)
            .field("endpoint", &self.endpoint)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}
