use std::time::{Duration, Instant};

use opentelemetry::trace::{Span as _, SpanContext, SpanKind};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::Span;
use zk_core::events::{
    ContextTransform, ProviderRequest, ProviderResponse, ProviderRetry, SideCallEnd, StreamStart,
    SystemTransform, TurnAfter, TurnBefore,
};
use zk_core::kernel::Cx;
use zk_core::model::{ModelRef, StopReason};

use super::runs::{RunTrace, usage_attributes};
use super::{
    Recorder, content, fail, foreign_attribute, number_attribute, redactor, serialised_name, shorten, span,
    text_attribute,
};
use crate::names;

/// Trace of a turn that has not ended.
pub(super) struct TurnTrace {
    pub(super) id: String,
    pub(super) span: Span,
    pub(super) place: SpanContext,
    pub(super) chat: Option<ChatTrace>,
}

/// Trace of a request to a model, with its retries.
pub(super) struct ChatTrace {
    pub(super) span: Span,
    pub(super) place: SpanContext,
    began: Instant,
    model: ModelRef,
    answered_by: Option<String>,
    first: Option<Duration>,
    /// Class of the latest error.
    error: Option<String>,
}

impl Recorder {
    pub(crate) fn messages_are_ready(&self, event: &ContextTransform, cx: &Cx) {
        let messages = content::messages(&event.messages, &redactor(cx));
        self.with_run(cx, |run| run.next.messages = Some(messages));
    }

    pub(crate) fn system_is_ready(&self, event: &SystemTransform, cx: &Cx) {
        let system = content::instructions(&event.system, &redactor(cx));
        self.with_run(cx, |run| run.next.system = Some(system));
    }

    pub(crate) fn request_is_made(&self, event: &ProviderRequest, cx: &Cx) {
        self.with_run(cx, |run| run.next.max_tokens = Some(event.max_tokens));
    }

    pub(crate) fn turn_begins(&self, event: &TurnBefore, cx: &Cx) {
        self.with_run(cx, |run| {
            self.end_turn(run, None);
            let number_of_turn = number_attribute(names::TURN, event.turn.into());
            let id = event.turn_id.to_string();
            let attributes = [number_of_turn.clone(), text_attribute(names::TURN_ID, &*id)];
            let turn = self.begin(Some(&run.place), span("turn", SpanKind::Internal, attributes));
            let place = turn.span_context().clone();
            let next = std::mem::take(&mut run.next);
            let mut attributes = vec![
                text_attribute(names::OPERATION, "chat"),
                text_attribute(names::PROVIDER, names::provider(&event.model.provider)),
                text_attribute(names::REQUEST_MODEL, &*event.model.model),
                KeyValue::new(names::STREAM, true),
                foreign_attribute(names::AGENT_NAME, &run.agent),
                number_of_turn,
            ];
            attributes
                .extend(run.session.iter().map(|session| foreign_attribute(names::CONVERSATION, session)));
            attributes
                .extend(next.max_tokens.map(|most| number_attribute(names::REQUEST_MAX_TOKENS, most.into())));
            attributes.extend(next.system.map(|system| text_attribute(names::SYSTEM, system)));
            attributes.extend(next.messages.map(|messages| text_attribute(names::INPUT_MESSAGES, messages)));
            let name = format!("chat {}", event.model.model);
            let chat = self.begin(Some(&place), span(name, SpanKind::Client, attributes));
            let chat = ChatTrace {
                place: chat.span_context().clone(),
                span: chat,
                began: Instant::now(),
                model: event.model.clone(),
                answered_by: None,
                first: None,
                error: None,
            };
            run.turn = Some(TurnTrace { id, span: turn, place, chat: Some(chat) });
        });
    }

    pub(crate) fn response_arrives(&self, event: &ProviderResponse, cx: &Cx) {
        self.with_chat(cx, |chat| {
            chat.span.set_attribute(number_attribute(names::HTTP_STATUS, event.status.into()));
            chat.error = (event.status >= 400).then(|| event.status.to_string());
        });
    }

    pub(crate) fn request_waits(&self, event: &ProviderRetry, cx: &Cx) {
        self.with_chat(cx, |chat| {
            let retry = &event.retry;
            chat.span.add_event(
                "retry",
                vec![
                    number_attribute(names::ATTEMPT, retry.attempt.into()),
                    number_attribute(
                        names::DELAY,
                        u64::try_from(retry.delay.as_millis()).unwrap_or(u64::MAX),
                    ),
                    text_attribute(names::ERROR_TYPE, serialised_name(&retry.kind)),
                ],
            );
        });
    }

    pub(crate) fn answer_begins(&self, event: &StreamStart, cx: &Cx) {
        self.with_chat(cx, |chat| {
            chat.first = chat.first.or_else(|| Some(chat.began.elapsed()));
            if let Some(model) = &event.model {
                chat.span.set_attribute(foreign_attribute(names::RESPONSE_MODEL, model));
                chat.answered_by = Some(shorten(model).to_owned());
            }
            if let Some(id) = &event.request_id {
                chat.span.set_attribute(foreign_attribute(names::RESPONSE_ID, id));
            }
        });
    }

    pub(crate) fn answer_ends(&self, event: &TurnAfter, cx: &Cx) {
        let said = event.message.as_ref().filter(|_| self.has_content);
        let said = said.map(|message| content::messages(std::slice::from_ref(message), &redactor(cx)));
        self.with_run(cx, |run| {
            let Some(turn) = &mut run.turn else { return };
            let Some(mut chat) = turn.chat.take() else { return };
            usage_attributes(&event.usage).for_each(|attribute| chat.span.set_attribute(attribute));
            if let Some(cost) = event.cost {
                chat.span.set_attribute(KeyValue::new(names::COST, cost));
            }
            if let Some(stop) = event.message.as_ref().and_then(|message| message.stop.as_ref()) {
                let reasons = Array::String(vec![StringValue::from(finish_reason(stop).to_owned())]);
                chat.span.set_attribute(KeyValue::new(names::FINISH_REASONS, Value::Array(reasons)));
            }
            if let Some(said) = said {
                chat.span.set_attribute(text_attribute(names::OUTPUT_MESSAGES, said));
            }
            let error = event.error.as_ref().map(|_| match chat.error.take() {
                _ if cx.is_stopped() => "cancelled".to_owned(),
                Some(class) => class,
                None => names::OTHER_ERROR.to_owned(),
            });
            if let Some(error) = &error {
                fail(&mut chat.span, error.clone());
                turn.span.set_attribute(text_attribute(names::ERROR_TYPE, &**error));
            }
            let answered_by = chat.answered_by.as_deref();
            self.metrics.record_operation(
                "chat",
                Some(&chat.model),
                answered_by,
                chat.began.elapsed(),
                error.as_deref(),
            );
            self.metrics.record_first_chunk(&chat.model, answered_by, chat.first);
            self.metrics.record_usage(&chat.model, answered_by, &event.usage, event.cost);
            chat.span.end();
        });
    }

    /// Records a side call as a point in time, since its beginning is not announced.
    pub(crate) fn side_call_ends(&self, event: &SideCallEnd, cx: &Cx) {
        let usage = &event.usage;
        self.metrics.record_usage(&usage.model, None, &usage.usage, usage.cost);
        self.with_run(cx, |run| {
            let mut attributes = vec![
                text_attribute(names::OPERATION, "chat"),
                text_attribute(names::PROVIDER, names::provider(&usage.model.provider)),
                text_attribute(names::REQUEST_MODEL, &*usage.model.model),
                foreign_attribute(names::PURPOSE, &event.purpose),
            ];
            attributes.extend(usage_attributes(&usage.usage));
            attributes.extend(usage.cost.map(|cost| KeyValue::new(names::COST, cost)));
            match &mut run.compaction {
                Some(compaction) => compaction.add_event("side call", attributes),
                None => match &mut run.turn {
                    Some(turn) => turn.span.add_event("side call", attributes),
                    None => run.span.add_event("side call", attributes),
                },
            }
        });
    }

    fn with_chat(&self, cx: &Cx, change: impl FnOnce(&mut ChatTrace)) {
        self.with_run(cx, |run| {
            if let Some(turn) = run.turn.as_mut().filter(|turn| turn.id == cx.turn_id())
                && let Some(chat) = &mut turn.chat
            {
                change(chat);
            }
        });
    }

    /// Ends the turn and all its spans that are still open.
    pub(super) fn end_turn(&self, run: &mut RunTrace, error: Option<&'static str>) {
        run.told.clear();
        run.known.clear();
        run.judged.clear();
        run.asked.clear();
        for (_, mut call) in run.calls.drain() {
            fail(&mut call.span, "cancelled");
            call.span.end();
        }
        let Some(mut turn) = run.turn.take() else { return };
        if let Some(mut chat) = turn.chat.take() {
            fail(&mut chat.span, error.unwrap_or("cancelled"));
            chat.span.end();
        }
        turn.span.end();
    }
}

fn finish_reason(stop: &StopReason) -> &str {
    match stop {
        StopReason::EndTurn | StopReason::StopSequence(_) => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens | StopReason::ContextExceeded => "length",
        StopReason::Refusal(_) => "content_filter",
        StopReason::PauseTurn => "pause",
        StopReason::Compaction => "compaction",
        StopReason::Aborted => "cancelled",
        StopReason::Error => "error",
        StopReason::Other(reason) => shorten(reason),
    }
}
