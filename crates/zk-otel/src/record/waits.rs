use std::time::SystemTime;

use opentelemetry::trace::{Span as _, SpanKind};
use zk_core::events::{
    BudgetOutcome, CompactionStage, ContextCompaction, DecidedBy, PermissionDecided, PermissionRequest,
    RunBudgetReached,
};
use zk_core::kernel::Cx;

use super::runs::RunTrace;
use super::{Recorder, fail, foreign_attribute, number_attribute, serialised_name, span, text_attribute};
use crate::names;

impl Recorder {
    pub(crate) fn person_is_asked(&self, event: &PermissionRequest, cx: &Cx) {
        self.with_run(cx, |run| run.asked.insert(event.call.call_id.as_str().into(), SystemTime::now()));
    }

    pub(crate) fn permission_is_decided(&self, event: &PermissionDecided, cx: &Cx) {
        self.with_run(cx, |run| {
            let Some(asked) = run.asked.remove(event.call.call_id.as_str()) else { return };
            let is_of_person = match event.by {
                DecidedBy::Person => true,
                DecidedBy::Policy | DecidedBy::EarlierAnswer | DecidedBy::Plugin | DecidedBy::Nobody => false,
            };
            if is_of_person {
                let answer = if event.allowed { "allowed" } else { "refused" };
                self.wait_span(run, "permission", asked, answer, Some(event.call.call_id.as_str()));
            }
        });
    }

    pub(crate) fn budget_is_reached(&self, event: &RunBudgetReached, cx: &Cx) {
        self.with_run(cx, |run| {
            let answer = match event.outcome {
                BudgetOutcome::Asked => {
                    run.budget_asked = Some(SystemTime::now());
                    return;
                }
                BudgetOutcome::Shortened { .. } => {
                    run.span.add_event("budget shortened a request", Vec::new());
                    return;
                }
                BudgetOutcome::Raised { .. } => "raised",
                BudgetOutcome::Lifted => "lifted",
                BudgetOutcome::Stopped => {
                    run.end = Some("budget");
                    "stopped"
                }
            };
            if let Some(asked) = run.budget_asked.take() {
                self.wait_span(run, "budget", asked, answer, None);
            }
        });
    }

    /// Creates the span of a wait that has ended.
    fn wait_span(
        &self,
        run: &RunTrace,
        what: &'static str,
        since: SystemTime,
        answer: &'static str,
        call: Option<&str>,
    ) {
        let known = [text_attribute(names::WAIT, what), text_attribute(names::ANSWER, answer)];
        let call = call.map(|call| foreign_attribute(names::TOOL_CALL, call));
        let builder = span(format!("wait {what}"), SpanKind::Internal, known.into_iter().chain(call));
        self.begin(Some(&run.turn_place()), builder.with_start_time(since)).end();
    }

    pub(crate) fn compaction_moves(&self, event: &ContextCompaction, cx: &Cx) {
        self.with_run(cx, |run| {
            let parent = run.turn_place();
            let begin = || {
                let attributes = [
                    text_attribute(names::TRIGGER, serialised_name(&event.trigger)),
                    number_attribute(names::BEFORE, event.before),
                ];
                self.begin(Some(&parent), span("compact", SpanKind::Internal, attributes))
            };
            let error = match event.stage {
                CompactionStage::Began => {
                    run.compaction = Some(begin());
                    return;
                }
                CompactionStage::Done | CompactionStage::Undone | CompactionStage::Restored => None,
                CompactionStage::Failed | CompactionStage::Stopped => Some("failed"),
                CompactionStage::Cancelled => Some("cancelled"),
                CompactionStage::Deferred => Some("deferred"),
            };
            let mut compaction = run.compaction.take().unwrap_or_else(begin);
            compaction.set_attribute(text_attribute(names::STAGE, serialised_name(&event.stage)));
            compaction.set_attribute(number_attribute(names::AFTER, event.after));
            if let Some(error) = error {
                fail(&mut compaction, error);
            }
            compaction.end();
        });
    }
}
