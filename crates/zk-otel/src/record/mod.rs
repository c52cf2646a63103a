//! Recording of spans: the state between an event that begins an operation and the event that ends it.

mod calls;
mod content;
mod metrics;
mod runs;
mod turns;
mod waits;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use serde::Serialize;
use zk_core::kernel::Cx;
use zk_core::model::CallId;
use zk_core::service::Redactor;

pub(crate) use self::metrics::Metrics;
use self::runs::RunTrace;
use crate::names;

/// Maximum size in bytes of a foreign name, id or error class.
const MAX_WORD_BYTES: usize = 128;

/// Span context of a call, as a service for everything that the call does.
pub(crate) struct CallPlaceInTrace(pub(crate) SpanContext);

/// Recorder of spans and metrics.
pub(crate) struct Recorder {
    tracer: SdkTracer,
    metrics: Metrics,
    has_content: bool,
    /// Remote parent span of this program's runs.
    parent: Option<SpanContext>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Runs that have not ended, by id.
    runs: HashMap<Box<str>, RunTrace>,
    /// Span contexts of calls that started sub-agents, by the sub-agent's name.
    starters: HashMap<Box<str>, SpanContext>,
    /// Names of sub-agents that had a run.
    agents: HashSet<Arc<str>>,
}

impl Recorder {
    pub(crate) fn new(
        tracer: SdkTracer,
        metrics: Metrics,
        has_content: bool,
        parent: Option<SpanContext>,
    ) -> Self {
        Self { tracer, metrics, has_content, parent, state: Mutex::default() }
    }

    pub(crate) fn sends_content(&self) -> bool {
        self.has_content
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the agent of `cx` has had no run yet.
    pub(crate) fn is_new_agent(&self, cx: &Cx) -> bool {
        self.state().agents.insert(cx.origin().agent.clone())
    }

    /// Changes the trace of the run that `cx` belongs to; does nothing without a run.
    fn with_run<T>(&self, cx: &Cx, change: impl FnOnce(&mut RunTrace) -> T) -> Option<T> {
        self.state().runs.get_mut(cx.run_id()).map(change)
    }

    /// Returns the span context of the work in `cx`.
    pub(crate) fn place(&self, cx: &Cx) -> Option<SpanContext> {
        if let Some(call) = cx.service::<CallPlaceInTrace>() {
            return Some(call.0.clone());
        }
        self.with_run(cx, |run| run.request_place(cx.turn_id()))
    }

    /// Returns the remote parent of this program's runs.
    pub(crate) fn parent(&self) -> Option<&SpanContext> {
        self.parent.as_ref()
    }

    /// Returns the span context of a running call.
    pub(crate) fn call_place(&self, run: &str, call: &CallId) -> Option<SpanContext> {
        Some(self.state().runs.get(run)?.calls.get(call.as_str())?.place.clone())
    }

    /// Begins a span below `parent`.
    fn begin(&self, parent: Option<&SpanContext>, builder: SpanBuilder) -> Span {
        let context = match parent {
            Some(parent) => Context::new().with_remote_span_context(parent.clone()),
            None => Context::new(),
        };
        self.tracer.build_with_context(builder, &context)
    }
}

/// Returns the redactor of the context.
pub(crate) fn redactor(cx: &Cx) -> Arc<Redactor> {
    cx.service::<Redactor>().unwrap_or_default()
}

/// Describes a span that begins now.
fn span(
    name: impl Into<Cow<'static, str>>,
    kind: SpanKind,
    attributes: impl IntoIterator<Item = KeyValue>,
) -> SpanBuilder {
    SpanBuilder::from_name(name)
        .with_kind(kind)
        .with_start_time(SystemTime::now())
        .with_attributes(attributes.into_iter().collect::<Vec<_>>())
}

/// Ends a span with a class of error.
fn fail(span: &mut Span, class: impl Into<Cow<'static, str>>) {
    let class = class.into();
    span.set_attribute(text_attribute(names::ERROR_TYPE, class.to_string()));
    // The error's message is not recorded, since it may quote the prompt.
    span.set_status(Status::error(class));
}

fn text_attribute(name: &'static str, value: impl Into<String>) -> KeyValue {
    KeyValue::new(name, value.into())
}

/// Creates an attribute with a foreign text.
fn foreign_attribute(name: &'static str, value: &str) -> KeyValue {
    KeyValue::new(name, shorten(value).to_owned())
}

/// Shortens a foreign text to the maximum size.
fn shorten(word: &str) -> &str {
    word.get(..word.floor_char_boundary(MAX_WORD_BYTES)).unwrap_or_default()
}

fn number_attribute(name: &'static str, value: u64) -> KeyValue {
    KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX))
}

/// Returns the serialised name of a value; for a value with data, its tag.
fn serialised_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => shorten(&word).to_owned(),
        Ok(serde_json::Value::Object(tagged)) => {
            tagged.keys().next().map(|word| shorten(word).to_owned()).unwrap_or_default()
        }
        Ok(_) | Err(_) => names::OTHER_ERROR.to_owned(),
    }
}
