use crate::kernel::Cx;

/// Place of a run's work in a trace, as W3C Trace Context has it, for requests that others continue:
/// `cx.service::<dyn TraceContext>()`. Absent if no traces are made.
pub trait TraceContext: Send + Sync {
    /// Returns the headers `traceparent` and, if it is not empty, `tracestate` for a request that is made in
    /// `cx`; none outside of a run.
    fn headers(&self, cx: &Cx) -> Vec<(&'static str, String)>;
}
