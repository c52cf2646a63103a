//! The strategies, asked by their order, and their plans, carried out.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout_at};
use zk_core::events::{CompactionTrigger, ContextReduced, ContextTransform};
use zk_core::kernel::{BoxError, Cx, EmitError, Item};
use zk_core::model::{Message, TurnId, context_size};
use zk_core::service::{ContextId, WindowCause, WindowPlan, WindowStrategy, WindowView};

use crate::before;
use crate::late::{Late, Plan};
use crate::owner::Owner;
use crate::prepare::Begun;
use crate::record::{Planned, Record};
use crate::talk::Talk;
use crate::view::Change;

/// Longest wait of a request for all that is done before it: then it is sent as it is, where it fits, and
/// otherwise without what takes longer.
pub(crate) const PREPARATION: Duration = Duration::from_secs(30);

/// Part of the preparation that is kept for the strategies after one that takes long.
const SPARE: Duration = Duration::from_secs(3);

/// Least time of a strategy even then: enough for one that asks nobody.
const LEAST: Duration = Duration::from_millis(200);

/// Outcome of asking the strategies.
#[derive(Default)]
pub(crate) struct Asked {
    /// Strategies that left something out, in order.
    pub(crate) strategies: Vec<String>,
    /// One whose plan is made while the request is sent as it is.
    pub(crate) deferred: Option<String>,
}

/// Messages that a plan left to be sent.
pub(crate) struct Reduced {
    sent: Vec<Arc<Message>>,
    left_out: usize,
    results: usize,
}

impl Owner {
    /// Asks the strategies by their order. The request waits until `preparation`.
    pub(crate) async fn ask_all(
        &self,
        event: &ContextTransform,
        context: Option<&ContextId>,
        begun: &mut Begun<'_>,
        preparation: Instant,
        cx: &Cx,
    ) -> Result<Asked, EmitError> {
        let mut strategies: Vec<_> =
            cx.items::<dyn WindowStrategy>().into_iter().map(|item| (item.value.order(), item)).collect();
        strategies.sort_by(|(order, item), (other_order, other)| {
            order.cmp(other_order).then_with(|| item.name.cmp(&other.name))
        });
        let cause = begun.cause();
        let target = if cause == WindowCause::Full { begun.target } else { usize::MAX };
        let enough = preparation - SPARE;
        let mut asked = Asked::default();
        if cause == WindowCause::Full
            && let Some(summary) = begun.summary.take()
        {
            let plan = before::plan(&begun.view(event.window, cause, target), &summary);
            let carry_out = |plan| self.carry_out(event, context, before::GIVEN, begun.trigger, plan);
            match plan.and_then(|plan| plan.map(carry_out).transpose()) {
                Ok(Some(reduced)) => {
                    self.tell_reduced(event, before::GIVEN, reduced, begun, cx).await?;
                    asked.strategies.push(before::GIVEN.to_owned());
                }
                Ok(None) => {}
                Err(error) => self.leave_out_summary(&error, cx).await?,
            }
        }
        for (_, strategy) in strategies {
            if cause == WindowCause::Full && begun.bytes <= target {
                break;
            }
            let answered = match cause {
                WindowCause::Turn | WindowCause::Soft => {
                    let view = begun.view(event.window, cause, target);
                    let plan = self.ask(&strategy, &view, preparation, cx).await;
                    plan.map(|plan| plan.filter(|_| !begun.is_planned_for))
                }
                WindowCause::Full => {
                    let until = match begun.trigger {
                        // Whoever asked for it waits for it.
                        Some(CompactionTrigger::Manual) => Instant::now() + self.options.limit(),
                        _ if begun.may_wait => preparation,
                        _ if Instant::now() < enough => enough,
                        // Half of what is left, so that the last one, which always helps, is asked as well.
                        _ => Instant::now() + LEAST.max(preparation.duration_since(Instant::now()) / 2),
                    };
                    let view = begun.view(event.window, cause, target);
                    match self.ask_for_room(&strategy, &view, context, (until, begun.may_wait), cx).await {
                        Ok(Some(plan)) => Ok(plan),
                        Ok(None) => {
                            asked.deferred = Some(strategy.name.to_string());
                            break;
                        }
                        Err(error) => Err(error),
                    }
                }
            };
            let carry_out = |plan| self.carry_out(event, context, &strategy.name, begun.trigger, plan);
            let plan = answered.map(|plan| plan.and_then(|plan| begun.without_taken_back(plan)));
            match plan.and_then(|plan| plan.map(carry_out).transpose()) {
                Ok(None) => {}
                Ok(Some(reduced)) => {
                    self.tell_reduced(event, &strategy.name, reduced, begun, cx).await?;
                    asked.strategies.push(strategy.name.to_string());
                }
                Err(error) => self.leave_out(&strategy.name, strategy.source.as_str(), &error, cx).await?,
            }
        }
        Ok(asked)
    }

    /// Goes on with what a plan left to be sent, and announces it.
    async fn tell_reduced(
        &self,
        event: &ContextTransform,
        strategy: &str,
        reduced: Reduced,
        begun: &mut Begun<'_>,
        cx: &Cx,
    ) -> Result<(), EmitError> {
        let reduction = ContextReduced {
            turn_id: event.turn_id.clone(),
            strategy: strategy.to_owned(),
            results: reduced.results,
            messages: reduced.left_out.saturating_sub(begun.left_out),
            before: begun.bytes,
            after: context_size(&reduced.sent),
        };
        begun.bytes = reduction.after;
        (begun.sent, begun.left_out) = (Cow::Owned(reduced.sent), reduced.left_out);
        if reduction.after < reduction.before {
            cx.emit(reduction).await?;
        }
        Ok(())
    }

    /// A strategy's plan before a request that may be sent as it is.
    async fn ask(
        &self,
        strategy: &Item<dyn WindowStrategy>,
        view: &WindowView<'_>,
        until: Instant,
        cx: &Cx,
    ) -> Plan {
        let begun = Instant::now();
        // The call itself is made inside, so that nothing a strategy does can unwind further.
        let asked = AssertUnwindSafe(async { strategy.value.plan(view, cx).await }).catch_unwind();
        match timeout_at(until, asked).await {
            Ok(Ok(plan)) => plan,
            Ok(Err(_)) => Err("it panicked".into()),
            Err(_) => Err(format!("it took longer than {} s", (until - begun).as_secs()).into()),
        }
    }

    /// A strategy's plan for less. Where it is not there at `until` and the request `may_wait`, it is made beside it and
    /// this gives nothing.
    async fn ask_for_room(
        &self,
        strategy: &Item<dyn WindowStrategy>,
        view: &WindowView<'_>,
        context: Option<&ContextId>,
        (until, may_wait): (Instant, bool),
        cx: &Cx,
    ) -> Result<Option<Option<WindowPlan>>, BoxError> {
        let (before, version) = {
            let mut state = self.lock();
            let talk = state.talk(context);
            (talk.late.take(), talk.view.version())
        };
        let begin = || Late::begin(&self.scope, strategy, view, version, self.options.limit(), cx);
        let mut late = match before {
            // Whoever asks for something of its own gets it.
            Some(late)
                if view.instructions.is_none() && late.holds(&strategy.name, version, view.messages) =>
            {
                late
            }
            Some(_) | None => begin(),
        };
        let mut plan = late.wait(until).await;
        if matches!(plan, Some(Err(_))) {
            late = begin();
            plan = late.wait(until).await;
        }
        match plan {
            Some(plan) => plan?.map(Some),
            None if may_wait => {
                self.lock().talk(context).late = Some(late);
                Ok(None)
            }
            None => Err(format!("it took longer than {} s", late.seconds()).into()),
        }
    }

    fn carry_out(
        &self,
        event: &ContextTransform,
        context: Option<&ContextId>,
        strategy: &str,
        trigger: Option<CompactionTrigger>,
        plan: WindowPlan,
    ) -> Result<Reduced, BoxError> {
        let history = &event.messages;
        let results = plan.results;
        let mut state = self.lock();
        let talk = state.talk(context);
        let change = talk.view.apply(history, plan)?;
        note_change(talk, &event.turn_id, strategy, trigger, change);
        let sent = talk.view.sent(history).into_owned();
        Ok(Reduced { sent, left_out: talk.left_out(history), results })
    }
}

/// Keeps what a plan changed, to be stored and to be taken back.
pub(crate) fn note_change(
    talk: &mut Talk,
    turn: &TurnId,
    strategy: &str,
    trigger: Option<CompactionTrigger>,
    change: Change,
) {
    if talk.numbered.as_ref() != Some(turn) {
        talk.numbered = Some(turn.clone());
        talk.number += 1;
    }
    if change.is_empty() {
        return;
    }
    let plan = Planned { number: talk.number, strategy: strategy.to_owned(), trigger, change };
    talk.plans.push(plan.clone());
    talk.unstored.push(Record::Plan(plan));
}
