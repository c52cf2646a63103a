use std::time::{Instant, SystemTime};

use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, SpanContext, SpanKind};
use opentelemetry_sdk::trace::Span;
use zk_core::events::{
    CallRef, ToolBatchEnd, ToolBegin, ToolBlocked, ToolEnd, ToolErrored, ToolGate, ToolParked, ToolSkipped,
    ValidationReject,
};
use zk_core::kernel::Cx;

use super::{
    CallPlaceInTrace, Recorder, content, fail, foreign_attribute, redactor, serialised_name, shorten, span,
    text_attribute,
};
use crate::names;

/// Trace of a call that runs.
pub(super) struct CallTrace {
    pub(super) span: Span,
    pub(super) place: SpanContext,
    began: Instant,
    /// Class of the tool's error.
    error: Option<String>,
}

impl Recorder {
    pub(crate) fn call_is_judged(&self, event: &ToolGate, cx: &Cx) {
        self.with_run(cx, |run| {
            let id = event.call.call_id.as_str();
            if event.tool.is_some() {
                run.known.insert(id.into());
            }
            run.judged.insert(id.into(), SystemTime::now());
        });
    }

    pub(crate) fn call_is_invalid(&self, event: &ValidationReject, cx: &Cx) {
        self.with_run(cx, |run| run.known.insert(event.call.call_id.as_str().into()));
    }

    pub(crate) fn call_begins(&self, event: &ToolBegin, cx: &Cx) {
        let args = self.has_content.then(|| content::arguments(&event.args, &redactor(cx)));
        let within = cx.service::<CallPlaceInTrace>();
        self.with_run(cx, |run| {
            let parent = within.map_or_else(|| run.turn_place(), |call| call.0.clone());
            let mut attributes = call_attributes(&event.call, shorten(&event.call.name));
            attributes.push(KeyValue::new(names::READ_ONLY, event.read_only));
            attributes.extend(args.map(|args| text_attribute(names::TOOL_ARGUMENTS, args)));
            let name = format!("execute_tool {}", shorten(&event.call.name));
            let span = self.begin(Some(&parent), span(name, SpanKind::Internal, attributes));
            let place = span.span_context().clone();
            let call = CallTrace { span, place, began: Instant::now(), error: None };
            let id = event.call.call_id.as_str();
            run.told.insert(id.into());
            run.calls.insert(id.into(), call);
        });
    }

    pub(crate) fn call_fails(&self, event: &ToolErrored, cx: &Cx) {
        self.with_run(cx, |run| {
            if let Some(call) = run.calls.get_mut(event.call.call_id.as_str()) {
                call.error = Some(serialised_name(&event.error.kind));
            }
        });
    }

    pub(crate) fn call_ends(&self, event: &ToolEnd, cx: &Cx) {
        let result = self.has_content.then(|| content::clean(&event.result.content.to_text(), &redactor(cx)));
        self.with_run(cx, |run| {
            let Some(mut call) = run.calls.remove(event.call.call_id.as_str()) else { return };
            call.span.set_attribute(text_attribute(
                names::OUTCOME,
                if event.result.is_error { "failed" } else { "done" },
            ));
            if let Some(code) = event.exit_code {
                call.span.set_attribute(KeyValue::new(names::EXIT_CODE, i64::from(code)));
            }
            if let Some(result) = result {
                call.span.set_attribute(text_attribute(names::TOOL_RESULT, result));
            }
            // A tool that was stopped announces no error.
            let usual = if cx.is_stopped() { "cancelled" } else { names::OTHER_ERROR };
            let error = event.result.is_error.then(|| call.error.unwrap_or_else(|| usual.to_owned()));
            if let Some(error) = &error {
                fail(&mut call.span, error.clone());
            }
            self.metrics.record_call(shorten(&event.call.name), call.began.elapsed(), error.as_deref());
            call.span.end();
        });
    }

    pub(crate) fn call_is_refused(&self, event: &ToolBlocked, cx: &Cx) {
        self.record_call_not_run(cx, &event.call, "refused", true);
    }

    pub(crate) fn call_is_parked(&self, event: &ToolParked, cx: &Cx) {
        self.record_call_not_run(cx, &event.call, "parked", true);
        self.with_run(cx, |run| run.end = Some("parked"));
    }

    pub(crate) fn call_is_skipped(&self, event: &ToolSkipped, cx: &Cx) {
        self.record_call_not_run(cx, &event.call, "skipped", true);
    }

    /// Records the calls that never began and so have no span: invalid arguments, an unknown tool, or a result from a
    /// gate.
    pub(crate) fn batch_ends(&self, event: &ToolBatchEnd, cx: &Cx) {
        for ended in &event.calls {
            let outcome = if ended.is_error { "rejected" } else { "substituted" };
            self.record_call_not_run(cx, &ended.call, outcome, ended.is_error);
        }
    }

    /// Makes the span of a call that did not run, unless it has one.
    fn record_call_not_run(&self, cx: &Cx, call: &CallRef, outcome: &'static str, is_error: bool) {
        let within = cx.service::<CallPlaceInTrace>();
        self.with_run(cx, |run| {
            let id = call.call_id.as_str();
            if !run.told.insert(id.into()) {
                return;
            }
            let parent = within.map_or_else(|| run.turn_place(), |call| call.0.clone());
            // The name of an unknown tool was made up by the model.
            let name = if run.known.contains(id) { shorten(&call.name) } else { names::UNKNOWN_TOOL };
            let mut attributes = call_attributes(call, name);
            attributes.push(text_attribute(names::OUTCOME, outcome));
            let builder = span(format!("execute_tool {name}"), SpanKind::Internal, attributes);
            let builder = match run.judged.remove(id) {
                Some(judged) => builder.with_start_time(judged),
                None => builder,
            };
            let mut span = self.begin(Some(&parent), builder);
            if is_error {
                fail(&mut span, outcome);
            }
            span.end();
        });
    }
}

fn call_attributes(call: &CallRef, name: &str) -> Vec<KeyValue> {
    vec![
        text_attribute(names::OPERATION, "execute_tool"),
        text_attribute(names::TOOL_NAME, name),
        foreign_attribute(names::TOOL_CALL, call.call_id.as_str()),
        text_attribute(names::TOOL_TYPE, "function"),
    ]
}
