use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

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

impl fmt::Debug for OtelSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the headers: keys are in them.
        f.debug_struct("OtelSettings")
            .field("enabled", &self.enabled)
            .field("endpoint", &self.endpoint)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}
