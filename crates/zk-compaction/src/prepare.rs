//! One preparation of what is sent, top to bottom: what is known of the conversation, the decision, the strategies'
//! plans, what has to outlive them, and what is said of it.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use zk_core::events::{
    CompactionStage, CompactionTrigger, ContextCompaction, ContextFill, ContextReduced, ContextTransform,
    PartKind, PartLeftOut,
};
use zk_core::kernel::{Answer, BoxError, Cx, EmitError, Handler, Item};
use zk_core::model::{Message, TurnId, context_size};
use zk_core::service::{
    Compacted, ContextId, Reduction, RunTools, WindowCause, WindowLevel, WindowPlan, WindowStrategy,
    WindowView,
};

use crate::before;
use crate::budget::Budget;
use crate::owner::{Owner, now_ms};
use crate::pins;
use crate::recall::RECALL;
use crate::record::{Planned, Record};
use crate::report::{report, spec_tokens};
use crate::talk::Talk;
use crate::trigger::Came;

/// How long the strategies together may take before a request that is not to be made smaller: then it is sent as the
/// one before was.
const PREPARATION: Duration = Duration::from_secs(30);

/// What is known and decided when a preparation begins.
pub(crate) struct Begun<'a> {
    sent: Cow<'a, [Arc<Message>]>,
    /// How large that is.
    bytes: usize,
    left_out: usize,
    was_whole: bool,
    /// Why the request is made smaller, if it is.
    pub(crate) trigger: Option<CompactionTrigger>,
    target: usize,
    keep: usize,
    pub(crate) before: Size,
    instructions: Option<String>,
    /// What stands for the messages that leave, where a plugin supplied that.
    pub(crate) summary: Option<String>,
    fill: (u64, WindowLevel),
}

/// What a request takes.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) tokens: u64,
    bytes: usize,
}

impl Begun<'_> {
    /// The conversation as a strategy sees it.
    fn view(&self, window: Option<u64>, cause: WindowCause, target: usize) -> WindowView<'_> {
        WindowView {
            cause,
            messages: &self.sent,
            bytes: self.bytes,
            left_out: self.left_out,
            window,
            target,
            keep: self.keep,
            instructions: self.instructions.as_deref(),
        }
    }
}

/// What a plan left to be sent.
struct Reduced {
    sent: Vec<Arc<Message>>,
    left_out: usize,
    results: usize,
}

impl Handler<ContextTransform> for Owner {
    async fn call(&self, event: &ContextTransform, cx: &Cx) -> Answer<ContextTransform> {
        let context = cx.service::<ContextId>();
        let context = context.as_deref();
        let budget = Budget::new(&self.options, event.window);
        self.count_exactly(context).await;
        let mut begun = self.begin(event, context, &budget, cx);
        let stage = |stage, begun: &Begun<'_>, after: u64, strategies: &[String], note| ContextCompaction {
            turn_id: event.turn_id.clone(),
            trigger: begun.trigger.unwrap_or(CompactionTrigger::Soft),
            stage,
            before: begun.before.tokens,
            after,
            strategies: strategies.to_vec(),
            note,
        };
        if let Some(reason) = self.ask_plugins(context, &mut begun, cx).await? {
            cx.emit(stage(CompactionStage::Cancelled, &begun, begun.before.tokens, &[], Some(reason)))
                .await?;
            begun.trigger = None;
        }
        let is_full = begun.trigger.is_some_and(|trigger| trigger != CompactionTrigger::Soft);
        if is_full {
            cx.emit(stage(CompactionStage::Began, &begun, begun.before.tokens, &[], None)).await?;
        }
        let strategies = self.ask_all(event, context, &mut begun, cx).await?;
        if is_full && !strategies.is_empty() {
            self.pin(event, context, &mut begun, cx).await?;
        }
        let after = if strategies.is_empty() {
            begun.before
        } else {
            self.measure(event, context, &begun.sent, &budget)
        };
        if is_full {
            let came = self.judge(context, &budget, &begun, after, now_ms(cx));
            let (reached, note) = match came {
                Came::Enough => (CompactionStage::Done, None),
                Came::TooLittle => (CompactionStage::Failed, Some(self.too_little(begun.before, after))),
                Came::Stopped => {
                    let note = self.breakdown(context, event.window, begun.before, after, cx).await;
                    if begun.trigger == Some(CompactionTrigger::Hard) {
                        self.lock().talk(context).refusal = Some(note.clone());
                    }
                    (CompactionStage::Stopped, Some(note))
                }
            };
            cx.emit(stage(reached, &begun, after.tokens, &strategies, note)).await?;
        } else if begun.trigger.is_some() && !strategies.is_empty() {
            cx.emit(stage(CompactionStage::Done, &begun, after.tokens, &strategies, None)).await?;
        }
        if let Err(error) = self.store(context, cx).await {
            let name = "the record of what is sent";
            self.leave_out(name, self.scope.source().as_str(), &error, cx).await?;
        }
        if self.options.recall
            && (begun.left_out > 0 || !strategies.is_empty())
            && let Some(tools) = cx.service::<dyn RunTools>()
        {
            // A run that has no such tool does without.
            let _ = tools.unlock(RECALL);
        }
        self.tell_fill(&event.turn_id, context, begun.fill, cx).await?;
        let is_same = strategies.is_empty() && begun.was_whole;
        Ok((!is_same).then(|| begun.sent.into_owned()))
    }
}

impl Owner {
    fn begin<'a>(
        &self,
        event: &'a ContextTransform,
        context: Option<&ContextId>,
        budget: &Budget,
        cx: &Cx,
    ) -> Begun<'a> {
        let mut state = self.lock();
        let overflow = state.targets.remove(&event.turn_id);
        let talk = state.talk(context);
        talk.turn = Some(event.turn_id.clone());
        talk.refusal = None;
        if talk.beside.is_none() {
            talk.beside = Some(self.count_beside(talk.sections, cx));
        }
        let fill = (talk.fill.estimate, talk.fill.level);
        talk.widen(&event.messages, budget);
        let sent = talk.sync(&event.messages, self.counter());
        talk.measure(budget, event.window);
        let before = Size { tokens: talk.fill.estimate, bytes: talk.fill.bytes };
        let trigger = talk.trigger.decide(
            talk.fill.level,
            budget.is_exceeded(before.tokens, before.bytes),
            overflow.is_some(),
        );
        let target = overflow.unwrap_or_else(|| budget.target(event.window, before.bytes));
        let asked = match trigger {
            Some(CompactionTrigger::Manual) => std::mem::take(&mut talk.asked),
            Some(CompactionTrigger::Soft | CompactionTrigger::Hard | CompactionTrigger::Overflow) | None => {
                Reduction::default()
            }
        };
        Begun {
            bytes: before.bytes,
            left_out: talk.view.left_out(&event.messages),
            was_whole: talk.view.is_whole(),
            trigger,
            target,
            keep: budget.keep(target),
            before,
            instructions: asked.instructions,
            summary: asked.summary,
            fill,
            sent,
        }
    }

    /// Tokens of what is sent beside the messages, as far as it is known before a provider has counted it.
    fn count_beside(&self, sections: usize, cx: &Cx) -> u64 {
        let tools = cx.service::<dyn RunTools>().map(|tools| tools.tools()).unwrap_or_default();
        let tools = tools.iter().filter(|tool| tool.unlocked).map(|tool| spec_tokens(&tool.spec));
        (sections as u64).div_ceil(4) + tools.sum::<u64>()
    }

    /// Asks the strategies by their order. Gives the names of those that left something out.
    async fn ask_all(
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
                    self.carry_out(event, context, &strategy.name, begun.trigger, plan).map(Some)
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

    /// Attaches anew what has to outlive what was left out.
    async fn pin(
        &self,
        event: &ContextTransform,
        context: Option<&ContextId>,
        begun: &mut Begun<'_>,
        cx: &Cx,
    ) -> Result<(), EmitError> {
        let history = &event.messages;
        // Whoever pins something takes it for sent.
        if !self.lock().talk(context).view.has_cut(history) {
            return Ok(());
        }
        let (pinned, failed) = pins::collect(history, &begun.sent, cx).await;
        {
            let mut state = self.lock();
            let talk = state.talk(context);
            if let Some(change) = talk.view.pin(history, &pinned) {
                note_change(talk, &event.turn_id, "pinned", begun.trigger, change);
                begun.sent = Cow::Owned(talk.view.sent(history).into_owned());
            }
        }
        for pins::Failed { name, source, error } in failed {
            self.leave_out(&name, &source, &error, cx).await?;
        }
        Ok(())
    }

    fn measure(
        &self,
        event: &ContextTransform,
        context: Option<&ContextId>,
        sent: &[Arc<Message>],
        budget: &Budget,
    ) -> Size {
        let mut state = self.lock();
        let talk = state.talk(context);
        talk.ledger.sync(sent, talk.view.version(), self.counter());
        talk.measure(budget, event.window);
        Size { tokens: talk.fill.estimate, bytes: talk.fill.bytes }
    }

    fn judge(
        &self,
        context: Option<&ContextId>,
        budget: &Budget,
        begun: &Begun<'_>,
        after: Size,
        at_ms: u64,
    ) -> Came {
        let mut state = self.lock();
        let talk = state.talk(context);
        let (before, now) = match budget.usable() {
            Some(_) => (begun.before.tokens, after.tokens),
            None => (begun.before.bytes as u64, after.bytes as u64),
        };
        if now < before {
            talk.fill.compactions += 1;
            talk.fill.last = Some(Compacted { before: begun.before.tokens, after: after.tokens, at_ms });
        }
        let came = talk.trigger.done(&self.options, before, now);
        match (came, begun.trigger) {
            // Whoever asked sees what it gave.
            (Came::Stopped, Some(CompactionTrigger::Manual)) => {
                talk.trigger.reset();
                Came::TooLittle
            }
            (came, _) => came,
        }
    }

    fn too_little(&self, before: Size, after: Size) -> String {
        let freed = before.tokens.saturating_sub(after.tokens);
        let least = (self.options.least_freed * 100.0).round();
        format!("it freed {freed} of about {} tokens, less than {least} %", before.tokens)
    }

    /// Why no more is tried, what fills the window, and what can be done.
    async fn breakdown(
        &self,
        context: Option<&ContextId>,
        window: Option<u64>,
        before: Size,
        after: Size,
        cx: &Cx,
    ) -> String {
        let sent = {
            let mut state = self.lock();
            let talk = state.talk(context);
            let history = talk.history.clone();
            talk.view.sent(&history).into_owned()
        };
        let report = report(&sent, self.counter(), cx).await;
        let unlisted = match after.tokens.saturating_sub(report.tokens) {
            0 => String::new(),
            tokens => format!(", about {tokens} that nothing here accounts for"),
        };
        let of = window.map_or(String::new(), |window| format!(" of a window of {window}"));
        format!(
            "compaction freed too little twice in a row ({}); about {} tokens{of} stay: {}{unlisted}. Compact with \
             instructions, take back what fills the window, go on with a model that has a larger window, or begin a \
             new conversation; a new prompt goes on as it is",
            self.too_little(before, after),
            after.tokens,
            report.largest(5),
        )
    }

    pub(crate) async fn leave_out(
        &self,
        name: &str,
        source: &str,
        error: &BoxError,
        cx: &Cx,
    ) -> Result<(), EmitError> {
        let left_out = PartLeftOut {
            kind: PartKind::WindowStrategy,
            name: name.to_owned(),
            source: source.to_owned(),
            error: error.to_string(),
        };
        cx.emit(left_out).await.map(drop)
    }

    async fn tell_fill(
        &self,
        turn: &TurnId,
        context: Option<&ContextId>,
        before: (u64, WindowLevel),
        cx: &Cx,
    ) -> Result<(), EmitError> {
        let fill = self.lock().talk(context).fill;
        if before == (fill.estimate, fill.level) {
            return Ok(());
        }
        let event = || ContextFill {
            turn_id: turn.clone(),
            tokens: fill.estimate,
            usable: fill.usable,
            level: fill.level,
            compactions: fill.compactions,
        };
        cx.emit_with(event).await.map(drop)
    }
}

/// Keeps what a plan changed, to be stored and to be taken back.
fn note_change(
    talk: &mut Talk,
    turn: &TurnId,
    strategy: &str,
    trigger: Option<CompactionTrigger>,
    change: crate::view::Change,
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
