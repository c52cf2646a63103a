use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use opentelemetry::trace::SpanContext;
use zk_core::kernel::Cx;
use zk_core::model::{Approved, ToolError, ToolOutput, ToolSpec};
use zk_core::service::{Tool, ToolCx, TraceContext, TurnEnv, trace_variables};

use crate::record::{CallPlaceInTrace, Recorder};
use crate::trace_parent;

/// Service that tells providers and servers which trace a request belongs to.
pub(crate) struct Headers(pub(crate) Arc<Recorder>);

impl TraceContext for Headers {
    fn headers(&self, cx: &Cx) -> Vec<(&'static str, String)> {
        self.0.place(cx).map(|place| trace_headers(&place)).unwrap_or_default()
    }

    fn program_headers(&self) -> Vec<(&'static str, String)> {
        self.0.parent().map(trace_headers).unwrap_or_default()
    }
}

fn trace_headers(place: &SpanContext) -> Vec<(&'static str, String)> {
    let Some(parent) = trace_parent(place) else { return Vec::new() };
    let state = place.trace_state().header();
    let state = (!state.is_empty()).then_some(("tracestate", state));
    std::iter::once(("traceparent", parent)).chain(state).collect()
}

/// Tool whose commands, calls and sub-agents belong to the span of its call.
pub(crate) struct InTrace {
    pub(crate) inner: Arc<dyn Tool>,
    pub(crate) recorder: Arc<Recorder>,
}

#[async_trait]
impl Tool for InTrace {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.inner.spec()
    }

    fn inner(&self) -> Option<&dyn Tool> {
        Some(&*self.inner)
    }

    async fn call(&self, call: &Approved, cx: &ToolCx) -> Result<ToolOutput, ToolError> {
        let Some(place) = self.recorder.call_place(cx.cx.run_id(), &cx.call_id) else {
            return self.inner.call(call, cx).await;
        };
        if cx.cx.service::<CallPlaceInTrace>().is_some_and(|known| known.0 == place) {
            return self.inner.call(call, cx).await;
        }
        let given = cx.cx.service::<TurnEnv>().unwrap_or_default();
        let mut variables: BTreeMap<String, String> = given.0.clone();
        // A state of the run's trace does not belong to another.
        variables.remove("TRACESTATE");
        variables.extend(trace_variables(trace_headers(&place)));
        let within =
            cx.cx.with_service(Arc::new(CallPlaceInTrace(place))).with_service(Arc::new(TurnEnv(variables)));
        self.inner.call(call, &ToolCx { cx: within, ..cx.clone() }).await
    }
}
