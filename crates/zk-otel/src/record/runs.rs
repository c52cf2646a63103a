use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use opentelemetry::trace::{Span as _, SpanContext, SpanKind};
use opentelemetry_sdk::trace::Span;
use zk_core::events::{AgentDone, AgentStart, SessionStart, SpawnBefore};
use zk_core::kernel::Cx;
use zk_core::model::{ModelRef, Usage};
use zk_core::service::{Lease, Leg, RunStatus};

use super::calls::CallTrace;
use super::turns::TurnTrace;
use super::{
    Recorder, fail, foreign_attribute, number_attribute, serialised_name, shorten, span, text_attribute,
};
use crate::names;

/// Trace of a run that has not ended.
pub(super) struct RunTrace {
    pub(super) span: Span,
    pub(super) place: SpanContext,
    pub(super) began: Instant,
    pub(super) agent: Arc<str>,
    pub(super) session: Option<String>,
    pub(super) model: Option<ModelRef>,
    pub(super) turn: Option<TurnTrace>,
    /// Calls that run, by id.
    pub(super) calls: HashMap<Box<str>, CallTrace>,
    /// Calls of the turn that have a span.
    pub(super) told: HashSet<Box<str>>,
    /// Ids of calls of the turn whose tool exists.
    pub(super) known: HashSet<Box<str>>,
    /// Times at which calls were judged and persons were asked, by call id.
    pub(super) judged: HashMap<Box<str>, SystemTime>,
    pub(super) asked: HashMap<Box<str>, SystemTime>,
    pub(super) compaction: Option<Span>,
    /// Time at which a person was asked about the budget.
    pub(super) budget_asked: Option<SystemTime>,
    /// Class of the error that ended the run, if an event named it.
    pub(super) end: Option<&'static str>,
    /// Facts of the next request.
    pub(super) next: NextRequest,
}

/// Data about the next request, from events before its turn begins.
#[derive(Default)]
pub(super) struct NextRequest {
    pub(super) max_tokens: Option<u32>,
    pub(super) messages: Option<String>,
    pub(super) system: Option<String>,
}

impl RunTrace {
    /// Returns the span context for a request of the turn `turn_id`: that of the request to the model, or
    /// else of the turn or the run.
    pub(super) fn request_place(&self, turn_id: &str) -> SpanContext {
        if let Some(compaction) = &self.compaction {
            return compaction.span_context().clone();
        }
        match self.turn.as_ref().filter(|turn| turn.id == turn_id) {
            Some(turn) => turn.chat.as_ref().map_or(&turn.place, |chat| &chat.place).clone(),
            None => self.place.clone(),
        }
    }

    /// Returns the span context of the turn; between turns, of the run.
    pub(super) fn turn_place(&self) -> SpanContext {
        self.turn.as_ref().map_or(&self.place, |turn| &turn.place).clone()
    }
}

impl Recorder {
    pub(crate) fn run_begins(&self, event: &SessionStart, cx: &Cx) {
        let agent = cx.origin().agent.clone();
        let mut state = self.state();
        let starter = state.starters.get(&*agent).cloned();
        let parent = starter.or_else(|| self.parent.clone());
        let session = event.session_id.as_ref().map(ToString::to_string);
        let known = [
            text_attribute(names::OPERATION, "invoke_agent"),
            foreign_attribute(names::AGENT_NAME, &agent),
            text_attribute(names::RUN, event.run_id.to_string()),
            number_attribute(names::DEPTH, cx.origin().depth.into()),
            number_attribute(names::EARLIER_MESSAGES, event.messages as u64),
        ];
        let conversation = session.iter().map(|session| foreign_attribute(names::CONVERSATION, session));
        // A leg of a run that outlives its worker is a span of its own.
        let lease = cx.service::<Lease>().filter(|_| cx.service::<Leg>().is_some());
        let leg = lease.iter().flat_map(|lease| {
            [
                number_attribute(names::LEG_TOKEN, lease.token()),
                number_attribute(names::LEG_ATTEMPT, lease.attempt()),
            ]
        });
        let attributes = known.into_iter().chain(conversation).chain(leg);
        let span = self.begin(
            parent.as_ref(),
            span(format!("invoke_agent {}", shorten(&agent)), SpanKind::Internal, attributes),
        );
        let run = RunTrace {
            place: span.span_context().clone(),
            span,
            began: Instant::now(),
            agent,
            session,
            model: None,
            turn: None,
            calls: HashMap::new(),
            told: HashSet::new(),
            known: HashSet::new(),
            judged: HashMap::new(),
            asked: HashMap::new(),
            compaction: None,
            budget_asked: None,
            end: None,
            next: NextRequest::default(),
        };
        state.runs.insert(event.run_id.to_string().into(), run);
    }

    pub(crate) fn run_is_ready(&self, event: &AgentStart, cx: &Cx) {
        self.with_run(cx, |run| {
            run.span.set_attribute(text_attribute(names::PROVIDER, names::provider(&event.model.provider)));
            run.span.set_attribute(text_attribute(names::REQUEST_MODEL, &*event.model.model));
            run.model = Some(event.model.clone());
        });
    }

    pub(crate) fn child_begins(&self, event: &SpawnBefore, cx: &Cx) {
        if let Some(place) = self.place(cx) {
            self.state().starters.insert(event.child.as_str().into(), place);
        }
    }

    pub(crate) fn run_ends(&self, event: &AgentDone, cx: &Cx) {
        let run = {
            let mut state = self.state();
            state.starters.remove(&*cx.origin().agent);
            state.runs.remove(cx.run_id())
        };
        let Some(mut run) = run else { return };
        self.end_turn(&mut run, None);
        if let Some(mut compaction) = run.compaction.take() {
            fail(&mut compaction, "cancelled");
            compaction.end();
        }
        run.span.set_attribute(text_attribute(names::STATUS, serialised_name(&event.status)));
        usage_attributes(&event.stats.usage).for_each(|attribute| run.span.set_attribute(attribute));
        if let Some(cost) = event.stats.cost {
            run.span.set_attribute(opentelemetry::KeyValue::new(names::COST, cost));
        }
        let error = match event.status {
            RunStatus::Completed => None,
            RunStatus::Aborted => Some("cancelled"),
            RunStatus::Error => Some(run.end.unwrap_or(names::OTHER_ERROR)),
        };
        if let Some(error) = error {
            fail(&mut run.span, error);
        }
        self.metrics.record_operation("invoke_agent", run.model.as_ref(), None, run.began.elapsed(), error);
        run.span.end();
    }
}

/// Returns the token counts by the conventions, where the input includes cached tokens.
pub(super) fn usage_attributes(usage: &Usage) -> impl Iterator<Item = opentelemetry::KeyValue> {
    let always = [
        number_attribute(names::INPUT_TOKENS, usage.read()),
        number_attribute(names::OUTPUT_TOKENS, usage.output),
    ];
    let more = [
        (names::CACHE_READ_TOKENS, usage.cache_read),
        (names::CACHE_WRITE_TOKENS, usage.cache_write),
        (names::REASONING_TOKENS, usage.reasoning),
    ];
    always.into_iter().chain(
        more.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| number_attribute(name, count)),
    )
}
