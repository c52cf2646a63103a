use crate::kernel::Cx;

/// Position of a run in a distributed trace (W3C Trace Context), for outgoing requests: `cx.service::<dyn
/// TraceContext>()`. Absent if tracing is off.
pub trait TraceContext: Send + Sync {
    /// Returns the headers `traceparent` and, if it is not empty, `tracestate` for a request that is made in
    /// `cx`; no headers outside of a run.
    fn headers(&self, cx: &Cx) -> Vec<(&'static str, String)>;
}
