//! Spans and metrics on their way to a collector, on threads of their own.

mod client;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, RetryPolicy, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use zk_auth::Http;

use self::client::CollectorClient;
use crate::OtelError;
use crate::config::{Collector, OtelConfig, Sampling};
use crate::record::{Metrics, Recorder};

/// Longest wait for a collector at the end of a conversation.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_millis(1_900);

/// Exporter of a program's traces and metrics, shared by all of its conversations. Its threads send in the background: a
/// collector that hangs or is down costs telemetry and nothing else.
#[derive(Clone)]
pub struct Telemetry(Arc<Exporter>);

struct Exporter {
    config: OtelConfig,
    traces: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Telemetry").field(&self.0.config).finish()
    }
}

impl Telemetry {
    /// Starts the exporter. `notice` is called once if the collector cannot be reached or refuses.
    ///
    /// # Errors
    /// [`OtelError::Exporter`] when it cannot be made.
    pub fn start(
        config: OtelConfig,
        http: Http,
        notice: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, OtelError> {
        let exporter = |error: opentelemetry_otlp::ExporterBuildError| OtelError::Exporter(error.to_string());
        let client = CollectorClient::new(http, notice);
        let attributes =
            config.resource.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
        let resource = Resource::builder_empty()
            .with_attributes(attributes)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .with_attribute(KeyValue::new("telemetry.sdk.name", "opentelemetry"))
            .with_attribute(KeyValue::new("telemetry.sdk.language", "rust"))
            .with_service_name(config.service_name.clone())
            .build();
        let mut traces = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_sampler(sampler(config.sampling));
        if let Some(Collector { url, headers, timeout }) = &config.traces {
            let exporter = opentelemetry_otlp::SpanExporter::builder()
                .with_http()
                .with_http_client(client.clone().with_timeout(*timeout))
                .with_protocol(Protocol::HttpBinary)
                .with_endpoint(url)
                .with_timeout(*timeout)
                .with_retry_policy(retries())
                .with_headers(headers.clone().into_iter().collect())
                .build()
                .map_err(exporter)?;
            traces = traces.with_batch_exporter(exporter);
        }
        let mut metrics = SdkMeterProvider::builder().with_resource(resource);
        if let Some(Collector { url, headers, timeout }) = &config.metrics {
            let exporter = opentelemetry_otlp::MetricExporter::builder()
                .with_http()
                .with_http_client(client.with_timeout(*timeout))
                .with_protocol(Protocol::HttpBinary)
                .with_endpoint(url)
                .with_timeout(*timeout)
                .with_retry_policy(retries())
                .with_headers(headers.clone().into_iter().collect())
                .build()
                .map_err(exporter)?;
            metrics = metrics.with_reader(PeriodicReader::builder(exporter).build());
        }
        Ok(Self(Arc::new(Exporter { config, traces: traces.build(), metrics: metrics.build() })))
    }

    /// Sends the queued data, and waits for at most `limit`. Returns whether everything was sent.
    pub async fn flush(&self, limit: Duration) -> bool {
        let (done, sent) = tokio::sync::oneshot::channel();
        let exporter = self.0.clone();
        // The exporter blocks its caller, for as long as the collector hangs.
        let thread = std::thread::Builder::new().name("zk-otel-flush".to_owned()).spawn(move || {
            let flushed = [exporter.traces.force_flush(), exporter.metrics.force_flush()];
            // There is no receiver after the limit.
            let _ = done.send(flushed.iter().all(Result::is_ok));
        });
        thread.is_ok() && matches!(tokio::time::timeout(limit, sent).await, Ok(Ok(true)))
    }

    pub(crate) fn recorder(&self) -> Recorder {
        let scope = InstrumentationScope::builder("zk").with_version(env!("CARGO_PKG_VERSION")).build();
        let tracer = self.0.traces.tracer_with_scope(scope.clone());
        let metrics = Metrics::new(&self.0.metrics.meter_with_scope(scope));
        Recorder::new(tracer, metrics, self.0.config.content, self.0.config.parent.clone())
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // Both wait for a collector when they are dropped.
        let (traces, metrics) = (self.traces.clone(), self.metrics.clone());
        let end = move || {
            let _ = (traces.shutdown(), metrics.shutdown());
        };
        let _ = std::thread::Builder::new().name("zk-otel-end".to_owned()).spawn(end);
    }
}

/// Returns a policy with few retries, since the end of a program waits for them.
fn retries() -> RetryPolicy {
    RetryPolicy::default().with_max_retries(1)
}

fn sampler(Sampling { share, follows_parent }: Sampling) -> Sampler {
    let own = match share {
        all if all >= 1.0 => Sampler::AlwaysOn,
        none if none <= 0.0 => Sampler::AlwaysOff,
        share => Sampler::TraceIdRatioBased(share),
    };
    if follows_parent { Sampler::ParentBased(Box::new(own)) } else { own }
}
