use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use zk_core::events::{
    ContextOverflow, ContextReduced, ContextTransform, ModelSelect, PartKind, PartLeftOut, TurnAfter,
};
use zk_core::kernel::{Answer, BoxError, Cx, Handler, HookOptions, Item, Plugin, Scope, Stage};
use zk_core::model::{Message, TurnId, context_size};
use zk_core::service::{
    ContextId, ContextWindow, WindowCause, WindowFill, WindowPlan, WindowStrategy, WindowView,
};

use crate::view::View;

/// The bytes that a token is taken for: few, as code and other languages than English have fewer in one.
const TOKEN: u64 = 3;

/// How long a strategy may take: it may ask a model.
const LIMIT: Duration = Duration::from_secs(60);
/// How long all of them together may take.
const ALL: Duration = Duration::from_secs(15 * 60);

/// Conversations whose fill is remembered.
const FILLS: usize = 64;

/// The owner of the context window: keeps what is sent of each conversation, and asks the strategies on its bus
/// ([`WindowStrategy`]) when less has to be sent.
///
/// Before each request, every strategy may apply a threshold of its own. After an overflow, or when
/// [`ContextWindow::reduce`] was called, about half as much is to be sent, or half of the window where that is known
/// and smaller: strategies are asked by their order until that is reached. Then the bytes stay the same until the
/// conversation overflows again. What was left out is announced as [`ContextReduced`].
///
/// Another model gets the whole conversation again: what did not fit one may fit the next. So does a resumed session,
/// which overflows once more.
///
/// ```
/// use zk_compaction::{Shorten, Tail, Window};
/// use zk_core::kernel::Bus;
///
/// let bus = Bus::new();
/// bus.install(&Window)?;
/// bus.install(&Tail::default())?;
/// bus.install(&Shorten)?;
/// # Ok::<(), zk_core::kernel::InstallError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Window;

impl Plugin for Window {
    fn name(&self) -> &'static str {
        "context-window"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let owner = Arc::new(Owner::default());
        let state = owner.clone();
        scope.on_sync(move |event: &ContextOverflow, _: &Cx| {
            let target = target(event.window, event.size);
            state.lock().targets.insert(event.turn_id.clone(), target);
        });
        let state = owner.clone();
        scope.on_sync(move |_: &ModelSelect, _: &Cx| {
            // A turn that goes on has its old model, which is still to be given less.
            state.lock().view = View::default();
        });
        let state = owner.clone();
        scope.on_sync(move |event: &TurnAfter, cx: &Cx| {
            if let Some(context) = cx.service::<ContextId>() {
                let usage = &event.usage;
                let tokens = usage.input + usage.output + usage.cache_read + usage.cache_write;
                state.lock().update(&context, |fill| fill.tokens = (tokens > 0).then_some(tokens));
            }
        });
        scope.provide_service::<dyn ContextWindow>(owner.clone());
        let at = HookOptions { time_limit: Some(ALL), ..HookOptions::from(Stage::Early) };
        scope.handle_at::<ContextTransform, _>(at, owner);
        Ok(())
    }
}

/// How large a conversation may be that did not fit.
fn target(window: Option<u64>, size: usize) -> usize {
    let room = window.map_or(u64::MAX, |window| (window / 2).saturating_mul(TOKEN));
    usize::try_from(room).unwrap_or(usize::MAX).min(size / 2)
}

/// Registers a strategy; an owner has to be there to ask it.
pub(crate) fn register(
    scope: &Scope,
    name: &str,
    strategy: impl WindowStrategy + 'static,
) -> Result<(), BoxError> {
    if scope.bus().and_then(|bus| bus.service::<dyn ContextWindow>()).is_none() {
        return Err(format!("nothing owns the context window: install `Window` before `{name}`").into());
    }
    scope.provide::<dyn WindowStrategy>(name, Arc::new(strategy))?;
    Ok(())
}

#[derive(Default)]
struct Owner(Mutex<State>);

#[derive(Default)]
struct State {
    view: View,
    /// How much is to be sent at most in turns that overflowed, as other conversations go on at the same time.
    targets: HashMap<TurnId, usize>,
    /// Conversations of which less is to be sent next time.
    asked: HashSet<ContextId>,
    fills: VecDeque<(ContextId, WindowFill)>,
}

impl State {
    /// Changes what is remembered of the conversations used last.
    fn update(&mut self, context: &ContextId, change: impl FnOnce(&mut WindowFill)) {
        let at = self.fills.iter().position(|(of, _)| of == context);
        let known = at.and_then(|at| self.fills.remove(at));
        let (context, mut fill) = known.unwrap_or_else(|| (context.clone(), WindowFill::default()));
        change(&mut fill);
        self.fills.truncate(FILLS - 1);
        self.fills.push_front((context, fill));
    }
}

impl Owner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks `strategy` and carries its plan out. Gives what is sent then, or nothing if that stays the same.
    async fn ask(
        &self,
        strategy: &Item<dyn WindowStrategy>,
        history: &[Arc<Message>],
        view: &WindowView<'_>,
        cx: &Cx,
    ) -> Result<Option<Reduced>, BoxError> {
        // The call itself is made inside, so that nothing a strategy does can unwind further.
        let asked = AssertUnwindSafe(async { strategy.value.plan(view, cx).await }).catch_unwind();
        let plan = match tokio::time::timeout(LIMIT, asked).await {
            Ok(Ok(plan)) => plan?,
            Ok(Err(_)) => return Err("it panicked".into()),
            Err(_) => return Err(format!("it took longer than {} s", LIMIT.as_secs()).into()),
        };
        let Some(plan) = plan else { return Ok(None) };
        let WindowPlan { results, .. } = plan;
        let mut state = self.lock();
        state.view.apply(history, plan)?;
        let sent = state.view.sent(history);
        Ok(Some(Reduced { sent, left_out: state.view.left_out(history), results }))
    }
}

struct Reduced {
    sent: Vec<Arc<Message>>,
    left_out: usize,
    results: usize,
}

impl ContextWindow for Owner {
    fn fill(&self, context: &ContextId) -> Option<WindowFill> {
        self.lock().fills.iter().find(|(of, _)| of == context).map(|(_, fill)| *fill)
    }

    fn reduce(&self, context: &ContextId) {
        self.lock().asked.insert(context.clone());
    }
}

impl Handler<ContextTransform> for Owner {
    async fn call(&self, event: &ContextTransform, cx: &Cx) -> Answer<ContextTransform> {
        let history = &event.messages;
        let context = cx.service::<ContextId>();
        let (was_whole, mut sent, mut left_out, target) = {
            let mut state = self.lock();
            let mut target = state.targets.remove(&event.turn_id);
            let sent = state.view.sent(history);
            if context.as_ref().is_some_and(|context| state.asked.remove(context)) {
                target = target.or_else(|| Some(self::target(event.window, context_size(&sent))));
            }
            (state.view.is_whole(), sent, state.view.left_out(history), target)
        };
        let cause = if target.is_some() { WindowCause::Full } else { WindowCause::Turn };
        let target = target.unwrap_or(usize::MAX);
        let mut strategies: Vec<_> =
            cx.items::<dyn WindowStrategy>().into_iter().map(|item| (item.value.order(), item)).collect();
        strategies.sort_by(|(order, item), (other_order, other)| {
            order.cmp(other_order).then_with(|| item.name.cmp(&other.name))
        });
        let mut changed = false;
        for (_, strategy) in strategies {
            let before = context_size(&sent);
            if cause == WindowCause::Full && before <= target {
                break;
            }
            let window = event.window;
            let view = WindowView { cause, messages: &sent, left_out, window, target };
            match self.ask(&strategy, history, &view, cx).await {
                Ok(None) => {}
                Ok(Some(reduced)) => {
                    changed = true;
                    let messages = reduced.left_out.saturating_sub(left_out);
                    let after = context_size(&reduced.sent);
                    let event = ContextReduced {
                        turn_id: event.turn_id.clone(),
                        strategy: strategy.name.to_string(),
                        results: reduced.results,
                        messages,
                        before,
                        after,
                    };
                    (sent, left_out) = (reduced.sent, reduced.left_out);
                    if after < before {
                        cx.emit(event).await?;
                    }
                }
                Err(error) => {
                    let left_out = PartLeftOut {
                        kind: PartKind::WindowStrategy,
                        name: strategy.name.to_string(),
                        source: strategy.source.to_string(),
                        error: error.to_string(),
                    };
                    cx.emit(left_out).await?;
                }
            }
        }
        if let Some(context) = context {
            let (bytes, window) = (context_size(&sent), event.window);
            self.lock().update(&context, |fill| (fill.bytes, fill.window) = (bytes, window));
        }
        Ok((changed || !was_whole).then_some(sent))
    }
}
