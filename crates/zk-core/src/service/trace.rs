use crate::kernel::Cx;

/// Position of a run in a distributed trace (W3C Trace Context), for outgoing requests: `cx.service::<dyn
/// TraceContext>()`. Absent if tracing is off.
pub trait TraceContext: Send + Sync {
    /// Returns the headers `traceparent` and, if it is not empty, `tracestate` for a request that is made in
    /// `cx`; no headers outside of a run.
    fn headers(&self, cx: &Cx) -> Vec<(&'static str, String)>;

    /// Returns the same headers for the place that the program itself was started from, for a process that serves
    /// many runs; none if nobody said one.
    fn program_headers(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Variables of a process by which it knows its place in a trace: `TRACEPARENT` and `TRACESTATE` of headers.
#[must_use]
pub fn trace_variables(headers: Vec<(&'static str, String)>) -> Vec<(String, String)> {
    headers.into_iter().map(|(name, value)| (name.to_ascii_uppercase(), value)).collect()
}
