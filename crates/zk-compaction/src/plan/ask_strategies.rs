//! Asks the strategies in their order, and carries out their plans.

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

use crate::plan::background::{BackgroundPlan, Plan};
use crate::plan::plugin_summary;
use crate::plan::prepare::Preparation;
use crate::store::record::{Planned, Record};
use crate::window::conversation::ConversationWindow;
use crate::window::owner::WindowOwner;
use crate::window::view::Change;

/// Longest wait of a request for its preparation. After that it is sent unchanged if it fits, and otherwise
/// without the slow strategies' plans.
pub(crate) const PREPARATION_TIME: Duration = Duration::from_secs(30);

/// Part of that time that is reserved for the strategies after a slow one.
const SPARE_TIME: Duration = Duration::from_secs(3);

/// Minimum time for a strategy, enough for one without a model.
const MIN_STRATEGY_TIME: Duration = Duration::from_millis(200);

/// Result of asking the strategies.
#[derive(Default)]
pub(crate) struct AskedStrategies {
    /// Strategies that left something out, in order.
    pub(crate) strategies: Vec<String>,
    /// Strategy whose plan is made in the background while the request is sent unchanged.
    pub(crate) deferred: Option<String>,
}

/// Messages that are sent after a plan, with its effect.
pub(crate) struct Reduced {
    sent: Vec<Arc<Message>>,
    left_out: usize,
    results: usize,
}

impl WindowOwner {
    /// Asks the strategies in their order. The request waits until `deadline`.
    pub(crate) async fn ask_all(
        &self,
        event: &ContextTransform,
        context: Option<&ContextId>,
        preparation: &mut Preparation<'_>,
        deadline: Instant,
        cx: &Cx,
    ) -> Result<AskedStrategies, EmitError> {
        let mut strategies: Vec<_> =
            cx.items::<dyn WindowStrategy>().into_iter().map(|item| (item.value.order(), item)).collect();
        strategies.sort_by(|(order, item), (other_order, other)| {
            order.cmp(other_order).then_with(|| item.name.cmp(&other.name))
        });
        let cause = preparation.cause();
        let target = if cause == WindowCause::Full { preparation.target } else { usize::MAX };
        let enough = deadline - SPARE_TIME;
        let mut asked = AskedStrategies::default();
        if cause == WindowCause::Full
            && let Some(summary) = preparation.summary.take()
        {
            let plan = plugin_summary::plan(&preparation.view(event.window, cause, target), &summary);
            let carry_out = |plan| {
                self.apply_plan(event, context, plugin_summary::PLUGIN_SUMMARY, preparation.trigger, plan)
            };
            match plan.and_then(|plan| plan.map(carry_out).transpose()) {
                Ok(Some(reduced)) => {
                    self.announce_reduction(event, plugin_summary::PLUGIN_SUMMARY, reduced, preparation, cx)
                        .await?;
                    asked.strategies.push(plugin_summary::PLUGIN_SUMMARY.to_owned());
                }
                Ok(None) => {}
                Err(error) => self.leave_out_summary(&error, cx).await?,
            }
        }
        for (_, strategy) in strategies {
            if cause == WindowCause::Full && preparation.bytes <= target {
                break;
            }
            let answered = match cause {
                WindowCause::Turn | WindowCause::Soft => {
                    let view = preparation.view(event.window, cause, target);
                    let plan = self.ask(&strategy, &view, deadline, cx).await;
                    plan.map(|plan| plan.filter(|_| !preparation.is_planned_for))
                }
                WindowCause::Full => {
                    let until = match preparation.trigger {
                        // The person who asked for a compaction waits for it.
                        Some(CompactionTrigger::Manual) => Instant::now() + self.options.limit(),
                        _ if preparation.may_wait => deadline,
                        _ if Instant::now() < enough => enough,
                        // Half of the remaining time, so that the last strategy, which always helps, is asked
                        // as well.
                        _ => {
                            Instant::now()
                                + MIN_STRATEGY_TIME.max(deadline.duration_since(Instant::now()) / 2)
                        }
                    };
                    let view = preparation.view(event.window, cause, target);
                    match self
                        .ask_for_room(&strategy, &view, context, (until, preparation.may_wait), cx)
                        .await
                    {
                        Ok(Some(plan)) => Ok(plan),
                        Ok(None) => {
                            asked.deferred = Some(strategy.name.to_string());
                            break;
                        }
                        Err(error) => Err(error),
                    }
                }
            };
            let carry_out = |plan| self.apply_plan(event, context, &strategy.name, preparation.trigger, plan);
            let plan = answered.map(|plan| plan.and_then(|plan| preparation.without_taken_back(plan)));
            match plan.and_then(|plan| plan.map(carry_out).transpose()) {
                Ok(None) => {}
                Ok(Some(reduced)) => {
                    self.announce_reduction(event, &strategy.name, reduced, preparation, cx).await?;
                    asked.strategies.push(strategy.name.to_string());
                }
                Err(error) => {
                    self.announce_failed_part(&strategy.name, strategy.source.as_str(), &error, cx).await?
                }
            }
        }
        Ok(asked)
    }

    /// Switches to the messages that a plan left, and announces the effect of the plan.
    async fn announce_reduction(
        &self,
        event: &ContextTransform,
        strategy: &str,
        reduced: Reduced,
        preparation: &mut Preparation<'_>,
        cx: &Cx,
    ) -> Result<(), EmitError> {
        let reduction = ContextReduced {
            turn_id: event.turn_id.clone(),
            strategy: strategy.to_owned(),
            results: reduced.results,
            messages: reduced.left_out.saturating_sub(preparation.left_out),
            before: preparation.bytes,
            after: context_size(&reduced.sent),
        };
        preparation.bytes = reduction.after;
        (preparation.sent, preparation.left_out) = (Cow::Owned(reduced.sent), reduced.left_out);
        if reduction.after < reduction.before {
            cx.emit(reduction).await?;
        }
        Ok(())
    }

    /// Asks a strategy for its plan for a request that may also be sent unchanged.
    async fn ask(
        &self,
        strategy: &Item<dyn WindowStrategy>,
        view: &WindowView<'_>,
        until: Instant,
        cx: &Cx,
    ) -> Plan {
        let start = Instant::now();
        // The strategy is called inside of the caught future, so that its panics do not unwind further.
        let asked = AssertUnwindSafe(async { strategy.value.plan(view, cx).await }).catch_unwind();
        match timeout_at(until, asked).await {
            Ok(Ok(plan)) => plan,
            Ok(Err(_)) => Err("it panicked".into()),
            Err(_) => Err(format!("it took longer than {} s", (until - start).as_secs()).into()),
        }
    }

    /// Asks a strategy for a plan that makes room. If the plan is not ready at `until` and the request
    /// `may_wait`, it is completed in the background and `None` is returned.
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
            let conversation = state.conversation(context);
            (conversation.background.take(), conversation.view.version())
        };
        let begin = || BackgroundPlan::begin(&self.scope, strategy, view, version, self.options.limit(), cx);
        let mut pending = match before {
            // A person's request for a specific compaction gets a plan of its own.
            Some(pending)
                if view.instructions.is_none()
                    && pending.is_valid_for(&strategy.name, version, view.messages) =>
            {
                pending
            }
            Some(_) | None => begin(),
        };
        let mut plan = pending.wait(until).await;
        if matches!(plan, Some(Err(_))) {
            pending = begin();
            plan = pending.wait(until).await;
        }
        match plan {
            Some(plan) => plan?.map(Some),
            None if may_wait => {
                self.lock().conversation(context).background = Some(pending);
                Ok(None)
            }
            None => Err(format!("it took longer than {} s", pending.seconds()).into()),
        }
    }

    fn apply_plan(
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
        let conversation = state.conversation(context);
        let change = conversation.view.apply(history, plan)?;
        record_change(conversation, &event.turn_id, strategy, trigger, change);
        let sent = conversation.view.sent(history).into_owned();
        Ok(Reduced { sent, left_out: conversation.left_out(history), results })
    }
}

/// Records the changes of a plan, for the session and for an undo.
pub(crate) fn record_change(
    conversation: &mut ConversationWindow,
    turn: &TurnId,
    strategy: &str,
    trigger: Option<CompactionTrigger>,
    change: Change,
) {
    if conversation.plans.numbered_turn.as_ref() != Some(turn) {
        conversation.plans.numbered_turn = Some(turn.clone());
        conversation.plans.number += 1;
    }
    if change.is_empty() {
        return;
    }
    let plan = Planned { number: conversation.plans.number, strategy: strategy.to_owned(), trigger, change };
    conversation.plans.held.push(plan.clone());
    conversation.plans.unstored.push(Record::Plan(plan));
}
