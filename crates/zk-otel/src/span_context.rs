use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// Writes a place in a trace as the header `traceparent` of W3C Trace Context; `None` for a place without ids.
#[must_use]
pub fn trace_parent(context: &SpanContext) -> Option<String> {
    let (trace, span) = (context.trace_id(), context.span_id());
    let flags = context.trace_flags() & TraceFlags::SAMPLED;
    context.is_valid().then(|| format!("00-{trace}-{span}-{flags:02x}"))
}

/// Reads the header `traceparent` with `tracestate`; `None` if it is not one.
#[must_use]
pub fn parse_trace_parent(parent: &str, state: Option<&str>) -> Option<SpanContext> {
    let mut parts = parent.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    // A later version may have more parts.
    let is_known = version != "ff" && (version != "00" || parts.next().is_none());
    if !is_known
        || ![(version, 2), (trace, 32), (span, 16), (flags, 2)]
            .iter()
            .all(|(text, digits)| is_hex(text, *digits))
    {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let state = state.and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    let context =
        SpanContext::new(TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?, flags, true, state);
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_parent_is_read_as_it_is_written_and_anything_else_is_none() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = parse_trace_parent(valid, Some("vendor=1")).expect("valid");
        assert_eq!(trace_parent(&context).as_deref(), Some(valid));
        assert_eq!(context.trace_state().header(), "vendor=1");
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        ] {
            assert_eq!(parse_trace_parent(text, None), None, "{text}");
        }
        let later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more";
        assert!(parse_trace_parent(later, None).is_some());
    }
}
