//! Plans that take longer than a request waits: they are made beside it, and used by a later one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use zk_core::kernel::{BoxError, Cx, Hook, Item, Scope};
use zk_core::model::Message;
use zk_core::service::{WindowPlan, WindowStrategy, WindowView};

/// Answer of a strategy.
pub(crate) type Plan = Result<Option<WindowPlan>, BoxError>;

/// A plan that is being made. Dropping it ends that.
pub(crate) struct BackgroundPlan {
    strategy: Arc<str>,
    begun: Instant,
    inputs: PlanInputs,
    plan: oneshot::Receiver<Plan>,
    task: Hook,
}

/// The run was stopped that the plan was made in, or the owner of the window went away.
#[derive(Debug, thiserror::Error)]
#[error("it ended with its run")]
pub(crate) struct RunEnded;

/// Messages that were sent when a plan was begun.
struct PlanInputs {
    /// Version of the view.
    version: u64,
    count: usize,
    last: Option<Arc<Message>>,
}

impl Drop for BackgroundPlan {
    fn drop(&mut self) {
        self.task.remove();
    }
}

impl BackgroundPlan {
    /// Has `strategy` plan for `view`, within `limit`. `version` is that of what is sent.
    pub(crate) fn begin(
        scope: &Scope,
        strategy: &Item<dyn WindowStrategy>,
        view: &WindowView<'_>,
        version: u64,
        limit: Duration,
        cx: &Cx,
    ) -> Self {
        let (give, plan) = oneshot::channel();
        let messages = view.messages.to_vec();
        let instructions = view.instructions.map(str::to_owned);
        let inputs = PlanInputs { version, count: messages.len(), last: messages.last().cloned() };
        let WindowView { cause, bytes, left_out, window, reserve, target, keep, taken_back, .. } = *view;
        let (value, in_run) = (strategy.value.clone(), cx.clone());
        let task = scope.spawn(async move {
            let view = WindowView {
                cause,
                messages: &messages,
                bytes,
                left_out,
                window,
                reserve,
                target,
                keep,
                instructions: instructions.as_deref(),
                taken_back,
            };
            // The call itself is made inside, so that nothing a strategy does can unwind further.
            let asked = AssertUnwindSafe(async { value.plan(&view, &in_run).await }).catch_unwind();
            let plan = match timeout(limit, asked).await {
                Ok(Ok(plan)) => plan,
                Ok(Err(_)) => Err("it panicked".into()),
                Err(_) => Err(format!("it took longer than {} s", limit.as_secs()).into()),
            };
            // A failure because the run was stopped says nothing of the strategy. And nobody may want the
            // plan any more.
            if plan.is_ok() || !in_run.is_stopped() {
                let _ = give.send(plan);
            }
        });
        Self { strategy: strategy.name.clone(), begun: Instant::now(), inputs, plan, task }
    }

    /// Whether it is still being made.
    pub(crate) fn is_pending(&self) -> bool {
        self.plan.is_empty() && !self.plan.is_terminated()
    }

    /// Whether it is a plan of `strategy` that holds for what is sent now: for nothing else than it was made of, and
    /// what result since.
    pub(crate) fn holds(&self, strategy: &str, version: u64, sent: &[Arc<Message>]) -> bool {
        let end = self.inputs.count.checked_sub(1).and_then(|end| sent.get(end));
        let is_same = match (end, &self.inputs.last) {
            (Some(end), Some(last)) => Arc::ptr_eq(end, last),
            (None, _) | (_, None) => false,
        };
        *self.strategy == *strategy && self.inputs.version == version && is_same
    }

    /// Waits for the plan until then; nothing if it takes longer.
    pub(crate) async fn wait(&mut self, until: Instant) -> Option<Result<Plan, RunEnded>> {
        let given = timeout_at(until, &mut self.plan).await.ok()?;
        Some(given.map_err(|_| RunEnded))
    }

    /// Seconds since it was begun.
    pub(crate) fn seconds(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }
}
