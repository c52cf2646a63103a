//! A collector that keeps what it receives by OTLP over HTTP, decoded.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;

/// A span as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) kind: i32,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) events: Vec<String>,
    pub(crate) is_error: bool,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

#[derive(Default)]
struct Kept {
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
    headers: Vec<String>,
}

/// Manner in which a collector answers.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Manner {
    Takes,
    Refuses,
    Hangs,
}

#[derive(Clone)]
pub(crate) struct Collector {
    kept: Arc<Mutex<Kept>>,
    pub(crate) endpoint: String,
}

impl Collector {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let kept = Arc::new(Mutex::new(Kept::default()));
        let keeping = kept.clone();
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming().flatten() {
                match manner {
                    Manner::Hangs => open.push(stream),
                    _ => drop(serve(&stream, manner, &keeping)),
                }
            }
        });
        Self { kept, endpoint }
    }

    /// The spans that were received, oldest first.
    pub(crate) fn spans(&self) -> Vec<Seen> {
        let kept = self.kept.lock().unwrap();
        let resources = kept.traces.iter().flat_map(|request| &request.resource_spans);
        let spans = resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans);
        let mut seen: Vec<Seen> = spans
            .map(|span| Seen {
                name: span.name.clone(),
                kind: span.kind,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                attributes: texts(&span.attributes),
                events: span.events.iter().map(|event| event.name.clone()).collect(),
                is_error: span.status.as_ref().is_some_and(|status| status.code == 2),
                began: span.start_time_unix_nano,
                ended: span.end_time_unix_nano,
            })
            .collect();
        seen.sort_by_key(|span| span.began);
        seen
    }

    /// The attributes of the resource.
    pub(crate) fn resource(&self) -> BTreeMap<String, String> {
        let kept = self.kept.lock().unwrap();
        let first = kept.traces.first().and_then(|request| request.resource_spans.first()).unwrap();
        texts(&first.resource.as_ref().unwrap().attributes)
    }

    /// A line for each point of each metric: name, attributes, and the sum.
    pub(crate) fn points(&self) -> Vec<(String, BTreeMap<String, String>, f64)> {
        let kept = self.kept.lock().unwrap();
        let resources = kept.metrics.iter().flat_map(|request| &request.resource_metrics);
        let metrics = resources.flat_map(|one| &one.scope_metrics).flat_map(|scope| &scope.metrics);
        let mut points = Vec::new();
        for metric in metrics {
            match metric.data.as_ref().unwrap() {
                Data::Histogram(histogram) => points.extend(histogram.data_points.iter().map(|point| {
                    (metric.name.clone(), texts(&point.attributes), point.sum.unwrap_or_default())
                })),
                Data::Sum(sum) => points.extend(sum.data_points.iter().map(|point| {
                    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
                    let value = match point.value.as_ref().unwrap() {
                        Value::AsDouble(value) => *value,
                        Value::AsInt(value) => *value as f64,
                    };
                    (metric.name.clone(), texts(&point.attributes), value)
                })),
                other => panic!("{other:?}"),
            }
        }
        points
    }

    /// Everything that was received, as text.
    pub(crate) fn dump(&self) -> String {
        let kept = self.kept.lock().unwrap();
        format!("{:?} {:?}", kept.traces, kept.metrics)
    }

    /// The request lines and headers that were received.
    pub(crate) fn headers(&self) -> Vec<String> {
        self.kept.lock().unwrap().headers.clone()
    }
}

fn serve(stream: &TcpStream, manner: Manner, kept: &Mutex<Kept>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let length = |line: &String| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
        let mut body = vec![0; head.iter().find_map(length).unwrap_or(0)];
        reader.read_exact(&mut body)?;
        if manner == Manner::Takes {
            let mut kept = kept.lock().unwrap();
            if head[0].starts_with("POST /v1/traces ") {
                kept.traces.push(ExportTraceServiceRequest::decode(&*body).unwrap());
            } else if head[0].starts_with("POST /v1/metrics ") {
                kept.metrics.push(ExportMetricsServiceRequest::decode(&*body).unwrap());
            } else {
                panic!("{head:?}");
            }
            kept.headers.extend(head);
        }
        let status = if manner == Manner::Takes { "200 OK" } else { "403 Forbidden" };
        write!(&mut &*stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")?;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    attributes.iter().map(|one| (one.key.clone(), text(one.value.as_ref()))).collect()
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::DoubleValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(value)) => value.to_string(),
        Some(any_value::Value::ArrayValue(list)) => {
            list.values.iter().map(|one| text(Some(one))).collect::<Vec<_>>().join(",")
        }
        other => panic!("{other:?}"),
    }
}
