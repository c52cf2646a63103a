//! The strategies, asked by their order, and their plans, carried out.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use zk_core::events::{CompactionTrigger, ContextReduced, ContextTransform};
use zk_core::kernel::{BoxError, Cx, EmitError, Item};
use zk_core::model::{Message, TurnId, context_size};
use zk_core::service::{ContextId, WindowCause, WindowPlan, WindowStrategy, WindowView};

use crate::before;
use crate::owner::Owner;
use crate::prepare::Begun;
use crate::record::{Planned, Record};
use crate::talk::Talk;
use crate::view::Change;

/// How long the strategies together may take before a request that is not to be made smaller: then it is sent as the
/// one before was.
const PREPARATION: Duration = Duration::from_secs(30);

/// What a plan left to be sent.
pub(crate) struct Reduced {
    sent: Vec<Arc<Message>>,
    left_out: usize,
    results: usize,
}

impl Owner {
    /// Asks the strategies by their order. Gives the names of those that left something out.
    pub(crate) async fn ask_all(
        &self,
        event: &ContextTransform,
        context: Option<&ContextId>,
        begun: &mut Begun<'_>,
        cx: &Cx,
    ) -> Result<Vec<String>, EmitError> {
        let mut strategies: Vec<_> =
            cx.items::<dyn WindowStrategy>().into_iter().map(|item| (item.value.order(), item)).collect();
        strategies.sort_by(|(order, item), (other_order, other)| {
            order.cmp(other_order).then_with(|| item.name.cmp(&other.name))
        });
        let cause = match begun.trigger {
            None => WindowCause::Turn,
            Some(CompactionTrigger::Soft) => WindowCause::Soft,
            Some(CompactionTrigger::Hard | CompactionTrigger::Overflow | CompactionTrigger::Manual) => {
                WindowCause::Full
            }
        };
        let target = if cause == WindowCause::Full { begun.target } else { usize::MAX };
        let preparation = tokio::time::Instant::now() + PREPARATION;
        let mut left_something_out = Vec::new();
        if cause == WindowCause::Full
            && let Some(summary) = begun.summary.take()
        {
            let plan = before::plan(&begun.view(event.window, cause, target), &summary);
            let carry_out = |plan| self.carry_out(event, context, before::GIVEN, begun.trigger, plan);
            match plan.and_then(|plan| plan.map(carry_out).transpose()) {
                Ok(Some(reduced)) => {
                    self.tell_reduced(event, before::GIVEN, reduced, begun, cx).await?;
                    left_something_out.push(before::GIVEN.to_owned());
                }
                Ok(None) => {}
                Err(error) => self.leave_out_summary(&error, cx).await?,
            }
        }
        for (_, strategy) in strategies {
            if cause == WindowCause::Full && begun.bytes <= target {
                break;
            }
            let until = match cause {
                WindowCause::Turn | WindowCause::Soft => preparation,
                WindowCause::Full => tokio::time::Instant::now() + self.options.limit(),
            };
            let view = begun.view(event.window, cause, target);
            let asked = match self.ask(&strategy, &view, until, cx).await {
                Ok(Some(plan)) => {
                    let plan = begun.without_taken_back(plan);
                    let carry_out =
                        |plan| self.carry_out(event, context, &strategy.name, begun.trigger, plan);
                    plan.map(carry_out).transpose()
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            match asked {
                Ok(None) => {}
                Ok(Some(reduced)) => {
                    self.tell_reduced(event, &strategy.name, reduced, begun, cx).await?;
                    left_something_out.push(strategy.name.to_string());
                }
                Err(error) => self.leave_out(&strategy.name, strategy.source.as_str(), &error, cx).await?,
            }
        }
        Ok(left_something_out)
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

    /// A strategy's plan.
    async fn ask(
        &self,
        strategy: &Item<dyn WindowStrategy>,
        view: &WindowView<'_>,
        until: tokio::time::Instant,
        cx: &Cx,
    ) -> Result<Option<WindowPlan>, BoxError> {
        let begun = tokio::time::Instant::now();
        // The call itself is made inside, so that nothing a strategy does can unwind further.
        let asked = AssertUnwindSafe(async { strategy.value.plan(view, cx).await }).catch_unwind();
        match tokio::time::timeout_at(until, asked).await {
            Ok(Ok(plan)) => plan,
            Ok(Err(_)) => Err("it panicked".into()),
            Err(_) => Err(format!("it took longer than {} s", (until - begun).as_secs()).into()),
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
        Ok(Reduced { sent, left_out: talk.view.left_out(history), results })
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
