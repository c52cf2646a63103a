//! Workflow of a run. It places legs and waits; no agent code is in it, so that a history fits every version of zk.
#![expect(unreachable_pub, reason = "the macro of workflows needs public types")]

use std::time::{Duration, SystemTime};

use temporalio_common::{ActivityDefinition, MemoValue, RetryPolicy};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::workflows::select;
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, CancellableFuture,
    ContinueAsNewOptions, SyncWorkflowContext, WorkflowCancellationError, WorkflowCancellationToken,
    WorkflowContext, WorkflowContextView, WorkflowResult, WorkflowTermination,
};
use zk_core::model::RunId;
use zk_core::service::{Job, RunPhase, Wait};

use super::order::{
    CHILDREN_TYPE, LEG_TYPE, LegOrder, LegReport, Order, PROGRESS_MEMO, Step, TELL_TYPE, date_ms, date_of,
    notes_queue,
};

/// Longest time of a leg. Heartbeats tell of a death long before.
const MAX_LEG: Duration = Duration::from_secs(366 * 24 * 3600);

/// Longest time of one attempt of a short activity.
const MAX_NOTE: Duration = Duration::from_secs(10);

/// Pause after which a parent looks at its children unasked: the word of an ended child may be lost with the process
/// that cancelled it.
const CHILDREN_PAUSE: Duration = Duration::from_secs(3600);

/// Definition of an activity whose input and output are these types.
macro_rules! activity {
    ($name:ident($input:ty) -> $output:ty, $kind:expr) => {
        struct $name;

        impl ActivityDefinition for $name {
            type Input = $input;
            type Output = $output;

            fn name(&self) -> &str {
                $kind
            }
        }
    };
}

activity!(Leg(LegOrder) -> LegReport, LEG_TYPE);
activity!(ChildrenEnded(Vec<RunId>) -> bool, CHILDREN_TYPE);
activity!(TellParent(RunId) -> (), TELL_TYPE);

/// Workflow of a run.
#[workflow]
pub struct RunFlow {
    order: Order,
    /// Begin of the first execution.
    since: Option<SystemTime>,
    is_woken: bool,
    has_ended_child: bool,
}

type Context = WorkflowContext<RunFlow>;

#[workflow_methods]
impl RunFlow {
    #[init]
    pub fn new(ctx: &WorkflowContextView, order: Order) -> Self {
        let since = order.progress.since_ms.map(date_of).or_else(|| ctx.start_time());
        Self { order, since, is_woken: false, has_ended_child: false }
    }

    #[run(name = "zk-run")]
    pub async fn run(ctx: &mut Context) -> WorkflowResult<()> {
        let job = ctx.state(|flow| flow.order.work.job(ctx.workflow_id()));
        let job = job.map_err(|error| failed(error.to_string()))?;
        let mut legs = 0;
        loop {
            legs += 1;
            let (token, attempt) = ctx.state_mut(|flow| flow.begin_leg(now(ctx)));
            save(ctx)?;
            let report = run_leg(ctx, LegOrder { job: job.clone(), token, attempt }).await;
            let is_cancelled = ctx.cancellation_token().is_cancelled();
            let step = ctx.state_mut(|flow| flow.end_leg(report.ok(), is_cancelled, now(ctx)));
            let is_over = match step {
                Step::Over => true,
                Step::Leg => false,
                Step::Wait(wait) => {
                    save(ctx)?;
                    wait_for(ctx, &wait).await? == Waited::Cancelled
                }
            };
            if is_over {
                return end(ctx, &job).await;
            }
            if legs >= ctx.state(|flow| flow.order.legs_per_execution) {
                let order = ctx.state(RunFlow::next_order);
                ctx.continue_as_new(order, ContinueAsNewOptions::default())?;
            }
        }
    }

    #[signal(name = "wake")]
    pub fn wake(&mut self, _ctx: &mut SyncWorkflowContext<Self>) {
        self.is_woken = true;
    }

    #[signal(name = "child-ended")]
    pub fn child_ended(&mut self, _ctx: &mut SyncWorkflowContext<Self>) {
        self.has_ended_child = true;
    }
}

impl RunFlow {
    /// Returns the input of the next execution.
    fn next_order(&self) -> Order {
        let mut order = self.order.clone();
        order.progress.since_ms = self.since.map(date_ms);
        order
    }

    /// Begins a leg, and returns its token and its number in the run.
    fn begin_leg(&mut self, now: SystemTime) -> (u64, u64) {
        self.is_woken = false;
        let token = self.order.progress.begin_leg(now);
        (token, self.order.progress.legs)
    }

    fn end_leg(&mut self, report: Option<LegReport>, is_cancelled: bool, now: SystemTime) -> Step {
        self.order.progress.end_leg(report, is_cancelled, self.is_woken, now)
    }
}

/// Returns the server's time of the present step.
fn now(ctx: &Context) -> SystemTime {
    ctx.workflow_time().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Stores the state in the memo, where lists find it.
fn save(ctx: &Context) -> Result<(), WorkflowTermination> {
    let progress = ctx.state(|flow| flow.order.progress.clone());
    Ok(ctx.upsert_memo([(PROGRESS_MEMO, Some(MemoValue::new(progress)))])?)
}

/// Runs a leg on some worker. One attempt each: this workflow is told of a death, and gives the next leg a larger token.
async fn run_leg(ctx: &mut Context, leg: LegOrder) -> Result<LegReport, ActivityExecutionError> {
    let lease = Duration::from_millis(ctx.state(|flow| flow.order.lease_ms));
    let options = ActivityOptions::with_start_to_close_timeout(MAX_LEG)
        .heartbeat_timeout(lease)
        .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
        .retry_policy(RetryPolicy::builder().maximum_attempts(1).build())
        .do_not_eagerly_execute(true)
        .build();
    ctx.execute_activity(Leg, leg, options).await
}

fn note_options(ctx: &Context) -> ActivityOptions {
    ActivityOptions::with_start_to_close_timeout(MAX_NOTE)
        .task_queue(notes_queue(ctx.task_queue()))
        .do_not_eagerly_execute(true)
        .cancellation_token(WorkflowCancellationToken::new())
        .build()
}

/// End of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    Due,
    Cancelled,
}

/// Waits until the next leg is due, or the run is cancelled.
async fn wait_for(ctx: &mut Context, wait: &Wait) -> Result<Waited, WorkflowTermination> {
    loop {
        let (mut pause, mut is_parent) = (None, false);
        match wait {
            Wait::Answer(_) | Wait::Mail | Wait::Budget => {}
            Wait::Until(time) => pause = Some(time.duration_since(now(ctx)).unwrap_or_default()),
            Wait::Children(runs) => {
                (pause, is_parent) = (Some(CHILDREN_PAUSE), true);
                ctx.state_mut(|flow| flow.has_ended_child = false);
                if ctx.execute_activity(ChildrenEnded, runs.clone(), note_options(ctx)).await? {
                    return Ok(Waited::Due);
                }
            }
        }
        let mut event = ctx.wait_condition(|flow| flow.is_woken || (is_parent && flow.has_ended_child));
        let has_event = match pause {
            None => event.await.map(|()| true),
            Some(pause) => {
                let mut timer = ctx.timer(pause);
                let event = select! {
                    event = event => event.map(|()| true),
                    _ = &mut timer => Ok(false),
                };
                timer.cancel();
                event
            }
        };
        let is_due = match has_event {
            Ok(true) => ctx.state(|flow| flow.is_woken),
            Ok(false) => !is_parent,
            Err(WorkflowCancellationError { .. }) => {
                ctx.state_mut(|flow| flow.order.progress.end_run(RunPhase::Cancelled, None));
                return Ok(Waited::Cancelled);
            }
        };
        if is_due {
            return Ok(Waited::Due);
        }
    }
}

/// Ends the workflow as its run ended, after the parent was told.
async fn end(ctx: &mut Context, job: &Job) -> WorkflowResult<()> {
    save(ctx)?;
    if let Some(parent) = job.parent() {
        ctx.execute_activity(TellParent, parent.run.clone(), note_options(ctx)).await?;
    }
    let progress = ctx.state(|flow| flow.order.progress.clone());
    match progress.phase {
        Some(RunPhase::Cancelled) => Err(WorkflowTermination::cancelled()),
        Some(RunPhase::Failed) => {
            Err(failed(progress.failure.map_or_else(String::new, |failure| failure.to_string())))
        }
        Some(RunPhase::Done | RunPhase::Queued | RunPhase::Running | RunPhase::Parked) | None => Ok(()),
    }
}

/// Termination with a known reason; no text of a model is one.
fn failed(reason: String) -> WorkflowTermination {
    temporalio_common::error::ApplicationFailure::new(std::io::Error::other(reason)).into()
}
