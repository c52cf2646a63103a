//! Preparation of a request from start to end: measurement, decision, strategies' plans, pinned content and
//! announcements.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;
use zk_core::events::{CompactionStage, CompactionTrigger, ContextCompaction, ContextTransform};
use zk_core::kernel::{Answer, Cx, Handler};
use zk_core::model::Message;
use zk_core::service::{ContextId, Reduction, RunTools, WindowCause, WindowLevel, WindowPlan, WindowView};

use crate::plan::ask_strategies::{AskedStrategies, PREPARATION_TIME};
use crate::plan::background::BackgroundPlan;
use crate::plan::pins::{self, Pin};
use crate::window::budget::Budget;
use crate::window::conversation::count_up_to;
use crate::window::owner::{WindowOwner, now_ms};
use crate::window::recall::RECALL;
use crate::window::report::spec_tokens;
use crate::window::trigger::CompactionResult;

/// State and decisions at the start of a preparation.
pub(crate) struct Preparation<'a> {
    pub(crate) sent: Cow<'a, [Arc<Message>]>,
    /// Size of `sent`, in bytes.
    pub(crate) bytes: usize,
    pub(crate) left_out: usize,
    /// Number of sent messages that an undo brought back.
    pub(crate) taken_back: usize,
    was_whole: bool,
    /// Reason to make the request smaller, if any.
    pub(crate) trigger: Option<CompactionTrigger>,
    /// Whether the request may be sent unchanged while a plan is made.
    pub(crate) may_wait: bool,
    /// Whether a background plan is being made for the sent messages, which must not change meanwhile.
    pub(crate) is_planned_for: bool,
    pub(crate) target: usize,
    keep: usize,
    reserve: u64,
    pub(crate) before: Size,
    instructions: Option<String>,
    /// Summary by a plugin for the messages that are left out.
    pub(crate) summary: Option<String>,
    /// Set if omitted messages are sent again: the stage of this change, and the tokens of the request before
    /// it.
    again: Option<(CompactionStage, u64)>,
}

/// Manual compaction in progress: dropping it announces that it broke off.
struct Unfinished<'a> {
    cx: &'a Cx,
    /// Event for the end of the compaction, without the reason; `None` once the end is announced.
    cancelled: Option<ContextCompaction>,
    /// Error that ended the compaction.
    error: Option<String>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let Some(cancelled) = self.cancelled.take() else { return };
        let note = match self.error.take() {
            Some(error) if !self.cx.is_stopped() => error,
            // Without an error, the caller dropped the work.
            Some(_) | None => "it was stopped".to_owned(),
        };
        // The stopped context emits no more events; listeners for the end do not block.
        let _ = self.cx.bus().cx().emit(ContextCompaction { note: Some(note), ..cancelled }).now_or_never();
    }
}

/// Size of a request.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) tokens: u64,
    pub(crate) bytes: usize,
}

impl Preparation<'_> {
    /// Cause reported to the strategies.
    pub(crate) fn cause(&self) -> WindowCause {
        match self.trigger {
            None => WindowCause::Turn,
            Some(CompactionTrigger::Soft) => WindowCause::Soft,
            Some(CompactionTrigger::Hard | CompactionTrigger::Overflow | CompactionTrigger::Manual) => {
                WindowCause::Full
            }
        }
    }

    /// Lowers the target by the size of the pinned content.
    fn make_room_for(&mut self, pinned: &[Pin]) {
        let size: usize = pinned.iter().map(|pin| pin.message.size()).sum();
        (self.target, self.may_wait) = (self.target.saturating_sub(size), false);
    }

    /// View of the conversation for a strategy.
    pub(crate) fn view(&self, window: Option<u64>, cause: WindowCause, target: usize) -> WindowView<'_> {
        WindowView {
            cause,
            messages: &self.sent,
            bytes: self.bytes,
            left_out: self.left_out,
            window,
            reserve: self.reserve,
            target,
            keep: self.keep,
            instructions: self.instructions.as_deref(),
            taken_back: self.taken_back,
        }
    }

    /// Removes changes to messages that an undo restored; `None` if nothing remains.
    pub(crate) fn without_taken_back(&self, mut plan: WindowPlan) -> Option<WindowPlan> {
        if self.taken_back == 0 {
            return Some(plan);
        }
        let results = |replaced: &[(usize, Arc<Message>)]| {
            replaced.iter().map(|(_, new)| new.results().count()).sum::<usize>()
        };
        let all = results(&plan.replace);
        plan.replace.retain(|(at, _)| *at >= self.taken_back);
        plan.results = plan.results.saturating_sub(all - results(&plan.replace));
        plan.cut = plan.cut.filter(|(range, _)| range.start >= self.taken_back);
        (!plan.replace.is_empty() || plan.cut.is_some()).then_some(plan)
    }
}

impl Handler<ContextTransform> for WindowOwner {
    async fn call(&self, event: &ContextTransform, cx: &Cx) -> Answer<ContextTransform> {
        let mut unfinished = None;
        let prepared = self.prepare(event, cx, &mut unfinished).await;
        if let (Err(error), Some(unfinished)) = (&prepared, &mut unfinished) {
            unfinished.error = Some(error.to_string());
        }
        prepared
    }
}

impl WindowOwner {
    async fn prepare<'a>(
        &self,
        event: &ContextTransform,
        cx: &'a Cx,
        unfinished: &mut Option<Unfinished<'a>>,
    ) -> Answer<ContextTransform> {
        let context = cx.service::<ContextId>();
        let context = context.as_deref();
        let deadline = Instant::now() + PREPARATION_TIME;
        let budget = Budget::new(&self.options, event.window);
        self.count_exactly(context).await;
        let mut preparation = self.begin_preparation(event, context, &budget, cx);
        let stage = |stage, preparation: &Preparation<'_>, after: u64, strategies: &[String], note| {
            ContextCompaction {
                turn_id: event.turn_id.clone(),
                trigger: preparation.trigger.unwrap_or(CompactionTrigger::Soft),
                stage,
                before: preparation.before.tokens,
                after,
                strategies: strategies.to_vec(),
                note,
            }
        };
        if let Some((stage, before)) = preparation.again.take() {
            cx.emit(ContextCompaction {
                turn_id: event.turn_id.clone(),
                trigger: CompactionTrigger::Manual,
                stage,
                before,
                after: preparation.before.tokens,
                strategies: Vec::new(),
                note: None,
            })
            .await?;
        }
        if let Some(reason) = self.ask_plugins(context, &mut preparation, cx).await? {
            cx.emit(stage(
                CompactionStage::Cancelled,
                &preparation,
                preparation.before.tokens,
                &[],
                Some(reason),
            ))
            .await?;
            preparation.trigger = None;
        }
        let is_full = preparation.cause() == WindowCause::Full;
        if is_full {
            cx.emit(stage(CompactionStage::Began, &preparation, preparation.before.tokens, &[], None))
                .await?;
            let cancelled =
                stage(CompactionStage::Cancelled, &preparation, preparation.before.tokens, &[], None);
            // The end of a manual compaction is always announced, whatever stops the run.
            let is_manual = preparation.trigger == Some(CompactionTrigger::Manual) && cx.origin().depth == 0;
            *unfinished = is_manual.then(|| Unfinished { cx, cancelled: Some(cancelled), error: None });
        }
        let AskedStrategies { mut strategies, deferred } =
            self.ask_all(event, context, &mut preparation, deadline, cx).await?;
        let mut pinned = Vec::new();
        let mut after = preparation.before;
        if is_full && !strategies.is_empty() {
            pinned = self.attach_pinned(event, context, &mut preparation, deadline, cx).await?;
            after = self.measure(event, context, &preparation.sent, &budget);
            // Pinned content takes space as well, so more has to be left out.
            let is_no_less = preparation.trigger == Some(CompactionTrigger::Overflow)
                && after.bytes >= preparation.before.bytes;
            let is_too_much = is_no_less || budget.level(after.tokens, after.bytes) == WindowLevel::Hard;
            if is_too_much && deferred.is_none() && !pinned.is_empty() {
                preparation.make_room_for(&pinned);
                let more = self.ask_all(event, context, &mut preparation, deadline, cx).await?.strategies;
                if !more.is_empty() {
                    pinned = self.attach_pinned(event, context, &mut preparation, deadline, cx).await?;
                    after = self.measure(event, context, &preparation.sent, &budget);
                }
                strategies.extend(more);
            }
        } else if !strategies.is_empty() {
            after = self.measure(event, context, &preparation.sent, &budget);
        }
        if let Some(strategy) = deferred {
            let note = format!("`{strategy}` takes long: it goes on while the conversation does");
            cx.emit(stage(CompactionStage::Deferred, &preparation, after.tokens, &strategies, Some(note)))
                .await?;
        } else if is_full {
            let took_all = self.describe_too_much_pinned(context, &budget, event.window, &pinned);
            let result = self.evaluate_compaction(context, &budget, &preparation, after, now_ms(cx));
            let (reached, note) = match (took_all, result) {
                // The person who asked sees the result, and no request is about to be sent.
                (Some(note), _) if preparation.trigger == Some(CompactionTrigger::Manual) => {
                    (CompactionStage::Failed, Some(note))
                }
                (Some(note), _) => {
                    self.stop(context, note.clone());
                    (CompactionStage::Stopped, Some(note))
                }
                (None, CompactionResult::Enough) => (CompactionStage::Done, None),
                (None, CompactionResult::TooLittle) => {
                    (CompactionStage::Failed, Some(self.describe_too_little_freed(preparation.before, after)))
                }
                (None, CompactionResult::Stopped)
                    if self.was_warned_about_pinned(context, &pinned, after) =>
                {
                    (CompactionStage::Failed, Some(self.describe_too_little_freed(preparation.before, after)))
                }
                (None, CompactionResult::Stopped) => {
                    let note = self
                        .describe_what_fills_the_window(
                            context,
                            event.window,
                            &pinned,
                            (preparation.before, after),
                            cx,
                        )
                        .await;
                    if preparation.trigger == Some(CompactionTrigger::Hard) {
                        self.record_pinned_warning(context, &pinned, after);
                        self.stop(context, note.clone());
                    }
                    (CompactionStage::Stopped, Some(note))
                }
            };
            cx.emit(stage(reached, &preparation, after.tokens, &strategies, note)).await?;
        } else if preparation.trigger.is_some() && !strategies.is_empty() {
            cx.emit(stage(CompactionStage::Done, &preparation, after.tokens, &strategies, None)).await?;
        }
        if let Some(unfinished) = unfinished {
            unfinished.cancelled = None;
        }
        self.refuse_oversized(context, event.window);
        if let Err(error) = self.store(context, cx).await {
            let name = "the record of what is sent";
            self.announce_failed_part(name, self.scope.source().as_str(), &error, cx).await?;
        }
        if self.options.recall
            && (preparation.left_out > 0 || !strategies.is_empty())
            && let Some(tools) = cx.service::<dyn RunTools>()
        {
            // A run without this tool continues without it.
            let _ = tools.unlock(RECALL);
        }
        self.announce_fill(&event.turn_id, context, cx).await?;
        let is_same = strategies.is_empty() && preparation.was_whole;
        Ok((!is_same).then(|| preparation.sent.into_owned()))
    }

    fn begin_preparation<'a>(
        &self,
        event: &'a ContextTransform,
        context: Option<&ContextId>,
        budget: &Budget,
        cx: &Cx,
    ) -> Preparation<'a> {
        let mut state = self.lock();
        let overflow = state.targets.remove(&event.turn_id);
        let conversation = state.conversation(context);
        conversation.turn = Some(event.turn_id.clone());
        conversation.refusal = None;
        if conversation.overhead.is_none() {
            conversation.overhead = Some(self.estimate_beside_messages(conversation.sections, cx));
        }
        let last = conversation.fill.estimate;
        conversation.restore_full_history(&event.messages, budget);
        let sent = conversation.sync(&event.messages, self.counter());
        conversation.measure(budget, event.window);
        let before = Size { tokens: conversation.fill.estimate, bytes: conversation.fill.bytes };
        let exceeds = budget.is_exceeded(before.tokens, before.bytes);
        let decided = conversation.trigger.decide(conversation.fill.level, exceeds, overflow.is_some());
        let may_wait = decided == Some(CompactionTrigger::Hard) && !exceeds;
        let is_small = matches!(decided, None | Some(CompactionTrigger::Soft));
        let is_pending = conversation.background.as_ref().is_some_and(BackgroundPlan::is_pending);
        let is_planned_for = is_pending && (may_wait || is_small);
        let trigger = decided.filter(|_| !is_planned_for);
        let target = overflow.unwrap_or_else(|| budget.target(event.window, before.bytes));
        let target = match trigger {
            None | Some(CompactionTrigger::Soft) => target,
            // Pinned content counts as well.
            Some(CompactionTrigger::Hard | CompactionTrigger::Overflow | CompactionTrigger::Manual) => {
                target
                    - pins::estimate_pinned_bytes(&conversation.history.known(&event.messages), &sent)
                        .min(target / 2)
            }
        };
        if trigger.is_some_and(|trigger| trigger != CompactionTrigger::Soft) {
            conversation.plans.taken_back = None;
        }
        let asked = match trigger {
            Some(CompactionTrigger::Manual | CompactionTrigger::Hard) => {
                std::mem::take(&mut conversation.wishes)
            }
            Some(CompactionTrigger::Soft | CompactionTrigger::Overflow) | None => Reduction::default(),
        };
        Preparation {
            bytes: before.bytes,
            left_out: conversation.left_out(&event.messages),
            taken_back: count_up_to(conversation.plans.taken_back.as_ref(), &sent),
            was_whole: conversation.view.is_whole(),
            trigger,
            may_wait,
            is_planned_for,
            target,
            keep: budget.keep(target),
            reserve: budget.reserve(),
            before,
            instructions: asked.instructions,
            summary: asked.summary,
            again: conversation.plans.resend_stage.take().map(|stage| (stage, last)),
            sent,
        }
    }

    /// Tokens besides the messages, estimated until a provider has counted them.
    fn estimate_beside_messages(&self, sections: usize, cx: &Cx) -> u64 {
        let tools = cx.service::<dyn RunTools>().map(|tools| tools.tools()).unwrap_or_default();
        let tools = tools.iter().filter(|tool| tool.unlocked).map(|tool| spec_tokens(&tool.spec));
        (sections as u64).div_ceil(4) + tools.sum::<u64>()
    }
}
