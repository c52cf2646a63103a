use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::trace::SpanContext;

use crate::OtelError;
use crate::settings::OtelSettings;
use crate::span_context::parse_trace_parent;

/// Default address of the collector.
const USUAL_ENDPOINT: &str = "http://localhost:4318";
/// Time limit of a request to the collector.
const USUAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Variable that enables the recording of prompts, arguments, results and answers.
const CONTENT_VARIABLE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// Requested telemetry: kinds of data, and their collectors.
#[derive(Clone)]
pub struct OtelConfig {
    /// Collector of traces; `None` if none are sent.
    pub traces: Option<Collector>,
    /// Collector of metrics; `None` if none are sent.
    pub metrics: Option<Collector>,
    /// Name of this program.
    pub service_name: String,
    /// Further attributes of the resource.
    pub resource: BTreeMap<String, String>,
    /// Sampling of traces.
    pub sampling: Sampling,
    /// Whether prompts, arguments, results and answers are sent.
    pub content: bool,
    /// Remote parent span of this program's runs.
    pub parent: Option<SpanContext>,
}

/// Address of a collector for one kind of data.
#[derive(Clone)]
pub struct Collector {
    /// The whole URL.
    pub url: String,
    /// Headers of each request, which may contain keys.
    pub headers: BTreeMap<String, String>,
    /// Time limit of a request.
    pub timeout: Duration,
}

/// Sampling of traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Share of the traces that begin here, from 0 to 1.
    pub share: f64,
    /// Whether a trace with a remote parent follows the parent's sampling decision.
    pub follows_parent: bool,
}

impl std::fmt::Debug for OtelConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OtelConfig")
            .field("traces", &self.traces)
            .field("metrics", &self.metrics)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Headers are omitted, since they contain keys.
        f.debug_struct("Collector").field("url", &self.url).finish_non_exhaustive()
    }
}

impl OtelConfig {
    /// Reads the settings and the standard's variables, which take precedence; `None` if no telemetry was
    /// requested.
    ///
    /// # Errors
    /// [`OtelError::Value`] for a value that cannot be used.
    pub fn read(
        settings: &OtelSettings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, OtelError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is_true =
            |name: &str| variable(name).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
        let asked = ["", "TRACES_", "METRICS_"]
            .iter()
            .any(|signal| variable(&format!("OTEL_EXPORTER_OTLP_{signal}ENDPOINT")).is_some());
        let is_on = settings.enabled.unwrap_or(asked || settings.endpoint.is_some());
        if !is_on || is_true("OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        let resource = parse_pairs("OTEL_RESOURCE_ATTRIBUTES", variable("OTEL_RESOURCE_ATTRIBUTES"))?;
        let named = variable("OTEL_SERVICE_NAME").or_else(|| settings.service_name.clone());
        let captured = variable(CONTENT_VARIABLE).map(|value| value.trim().to_ascii_lowercase());
        let config = Self {
            traces: collector("TRACES", "v1/traces", settings, &variable)?,
            metrics: collector("METRICS", "v1/metrics", settings, &variable)?,
            service_name: named
                .or_else(|| resource.get("service.name").cloned())
                .unwrap_or_else(|| "zk".to_owned()),
            resource,
            sampling: sampling(settings, &variable)?,
            content: match captured.as_deref() {
                Some("true" | "span_only" | "span_and_event") => true,
                Some(_) => false,
                None => settings.content,
            },
            parent: variable("TRACEPARENT")
                .and_then(|parent| parse_trace_parent(&parent, variable("TRACESTATE").as_deref())),
        };
        Ok((config.traces.is_some() || config.metrics.is_some()).then_some(config))
    }
}

/// Returns the collector of one signal; `None` if its exporter is `none`.
fn collector(
    signal: &str,
    path: &str,
    settings: &OtelSettings,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Option<Collector>, OtelError> {
    let exporter = format!("OTEL_{signal}_EXPORTER");
    match variable(&exporter).as_deref().map(str::trim) {
        Some("none") => return Ok(None),
        Some("otlp") | None => {}
        Some(other) => return Err(value_error(&exporter, other, "only `otlp` and `none` are known")),
    }
    let either = |what: &str| {
        let of_signal = format!("OTEL_EXPORTER_OTLP_{signal}_{what}");
        let of_all = format!("OTEL_EXPORTER_OTLP_{what}");
        variable(&of_signal)
            .map(|value| (of_signal, value))
            .or_else(|| Some((of_all.clone(), variable(&of_all)?)))
    };
    if let Some((name, protocol)) =
        either("PROTOCOL").filter(|(_, protocol)| protocol.trim() != "http/protobuf")
    {
        return Err(value_error(
            &name,
            &protocol,
            "only `http/protobuf` is sent; a collector takes it at port 4318",
        ));
    }
    let url = match variable(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")) {
        Some(whole) => whole.trim().to_owned(),
        None => {
            let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT").or_else(|| settings.endpoint.clone());
            let base = base.unwrap_or_else(|| USUAL_ENDPOINT.to_owned());
            format!("{}/{path}", base.trim().trim_end_matches('/'))
        }
    };
    let has_host = ["http://", "https://"]
        .iter()
        .any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    if !has_host {
        return Err(value_error(
            "the endpoint of OpenTelemetry",
            &url,
            "an address begins with http:// or https://",
        ));
    }
    let timeout = match either("TIMEOUT") {
        None => USUAL_TIMEOUT,
        Some((name, text)) => Duration::from_millis(
            text.trim()
                .parse()
                .map_err(|_| value_error(&name, &text, "a number of milliseconds is expected"))?,
        ),
    };
    let mut headers = settings.headers.clone();
    if let Some((name, text)) = either("HEADERS") {
        headers.extend(parse_pairs(&name, Some(text))?);
    }
    Ok(Some(Collector { url, headers, timeout }))
}

fn sampling(
    settings: &OtelSettings,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Sampling, OtelError> {
    const NAME: &str = "OTEL_TRACES_SAMPLER";
    let Some(name) = variable(NAME) else {
        return Ok(Sampling { share: settings.sample.unwrap_or(1.0).clamp(0.0, 1.0), follows_parent: true });
    };
    let name = name.trim();
    let follows_parent = name.starts_with("parentbased_");
    let share = match name.strip_prefix("parentbased_").unwrap_or(name) {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => match variable("OTEL_TRACES_SAMPLER_ARG") {
            None => 1.0,
            Some(text) => {
                text.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| {
                    value_error("OTEL_TRACES_SAMPLER_ARG", &text, "a number from 0 to 1 is expected")
                })?
            }
        },
        _ => {
            return Err(value_error(
                NAME,
                name,
                "always_on, always_off, traceidratio and parentbased_… are known",
            ));
        }
    };
    Ok(Sampling { share, follows_parent })
}

/// Reads `name=value,name=value`, with values in percent-encoding.
pub(crate) fn parse_pairs(
    variable: &str,
    text: Option<String>,
) -> Result<BTreeMap<String, String>, OtelError> {
    let text = text.unwrap_or_default();
    let pair = |pair: &str| match pair.split_once('=') {
        Some((name, value)) => Ok((name.trim().to_owned(), percent_decoded(value.trim()))),
        // The text is not shown, since it may contain a key.
        None => Err(value_error(variable, "…", "a list such as name=value,name=value is expected")),
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(pair).collect()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let digits =
            more.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = more.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn value_error(name: &str, value: &str, expected: &'static str) -> OtelError {
    OtelError::Value { name: name.to_owned(), value: value.to_owned(), expected }
}
