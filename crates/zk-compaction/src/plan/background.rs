//! Background plans: plans that take longer than a request waits are used by a later request.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};
use zk_core::kernel::{BoxError, Cx, Hook, Item, Scope};
use zk_core::model::Message;
use zk_core::service::{WindowPlan, WindowStrategy, WindowView};

/// Result of a strategy's planning.
pub(crate) type Plan = Result<Option<WindowPlan>, BoxError>;

/// Plan in the making. Dropping this cancels it.
pub(crate) struct BackgroundPlan {
    strategy: Arc<str>,
    begun: Instant,
    inputs: PlanInputs,
    plan: oneshot::Receiver<Plan>,
    task: Hook,
}

/// The run of the plan was stopped, or the owner of the window was dropped.
#[derive(Debug, thiserror::Error)]
#[error("it ended with its run")]
pub(crate) struct RunEnded;

/// Messages for which a plan was begun.
struct PlanInputs {
    /// Version of the view at that time.
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
    /// Starts `strategy` with `view` and a time limit. `version` is that of the sent messages.
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
            // The strategy is called inside of the caught future, so that its panics do not unwind further.
            let asked = AssertUnwindSafe(async { value.plan(&view, &in_run).await }).catch_unwind();
            let plan = match timeout(limit, asked).await {
                Ok(Ok(plan)) => plan,
                Ok(Err(_)) => Err("it panicked".into()),
                Err(_) => Err(format!("it took longer than {} s", limit.as_secs()).into()),
            };
            // A failure because of a stopped run is no fault of the strategy, and no request waits for the
            // plan.
            if plan.is_ok() || !in_run.is_stopped() {
                let _ = give.send(plan);
            }
        });
        Self { strategy: strategy.name.clone(), begun: Instant::now(), inputs, plan, task }
    }

    /// Whether the plan is still being made.
    pub(crate) fn is_pending(&self) -> bool {
        self.plan.is_empty() && !self.plan.is_terminated()
    }

    /// Whether the plan is from `strategy` and still valid: since it was begun, messages were only appended.
    pub(crate) fn is_valid_for(&self, strategy: &str, version: u64, sent: &[Arc<Message>]) -> bool {
        let end = self.inputs.count.checked_sub(1).and_then(|end| sent.get(end));
        let is_same = match (end, &self.inputs.last) {
            (Some(end), Some(last)) => Arc::ptr_eq(end, last),
            (None, _) | (_, None) => false,
        };
        *self.strategy == *strategy && self.inputs.version == version && is_same
    }

    /// Waits for the plan until this time; `None` if it takes longer.
    pub(crate) async fn wait(&mut self, until: Instant) -> Option<Result<Plan, RunEnded>> {
        let given = timeout_at(until, &mut self.plan).await.ok()?;
        Some(given.map_err(|_| RunEnded))
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }
}
