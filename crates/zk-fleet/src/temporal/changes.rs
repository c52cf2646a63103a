//! Submission, wake-up and cancellation of runs.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use temporalio_client::tonic::{Code, IntoRequest};
use temporalio_common::protos::temporal::api::common::v1::{Memo, Priority};
use temporalio_common::protos::temporal::api::enums::v1::{WorkflowIdConflictPolicy, WorkflowIdReusePolicy};
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    RequestCancelWorkflowExecutionRequest, SignalWorkflowExecutionRequest, StartWorkflowExecutionRequest,
    TerminateWorkflowExecutionRequest,
};
use tokio::time::{Instant, sleep};
use zk_core::model::RunId;
use zk_core::service::{EngineError, EngineName, Job, RunPhase, Take, Wait};

use super::order::{CHILD_SIGNAL, JOB_MEMO, RUN_TYPE, RunTerms, WAKE_SIGNAL, Work, task_queue, workflow_id};
use super::runs::{self, FoundRun, Presence};
use super::server::{
    Server, execution, fresh_id, is_missing, named_queue, to_payload, to_payloads, workflow_type,
};
use super::sessions;

/// Longest time for one step of a workflow, after which another worker repeats it.
pub(super) const STEP_LIMIT: Duration = Duration::from_secs(5);

/// Delay of the first step of a run that is cancelled right after its start.
const NEVER: Duration = Duration::from_secs(3600);

/// Longest time for which a submission waits until the server lists a child, and the pause between two looks.
const LISTING_LIMIT: Duration = Duration::from_secs(10);
const LISTING_PAUSE: Duration = Duration::from_millis(20);

/// Maximum size in bytes of a fairness key.
const MAX_FAIRNESS_BYTES: usize = 64;

/// Adds a run, once.
pub(super) async fn submit(server: &Server, terms: RunTerms, job: Job) -> Result<(), EngineError> {
    // A run that is there already needs no session, and may be over.
    if runs::presence(server, job.run()).await? != Presence::Missing {
        same_job(server, &job).await?;
        return settle_child(server, &job, false).await;
    }
    let is_orphan = is_ancestor_cancelled(server, &job).await?;
    sessions::take(server, &job).await?;
    let work = Work::Job(job.clone());
    let order = terms.order(work.clone());
    let queue = job.queue().map_or(Take::DEFAULT_QUEUE, EngineName::as_str);
    let request = StartWorkflowExecutionRequest {
        namespace: server.namespace(),
        workflow_id: workflow_id(job.run()),
        workflow_type: workflow_type(RUN_TYPE),
        task_queue: named_queue(&task_queue(queue)),
        input: to_payloads(&order)?,
        workflow_task_timeout: STEP_LIMIT.try_into().ok(),
        identity: server.identity(),
        request_id: fresh_id(),
        workflow_id_reuse_policy: WorkflowIdReusePolicy::RejectDuplicate.into(),
        workflow_id_conflict_policy: WorkflowIdConflictPolicy::Fail.into(),
        memo: Some(Memo { fields: HashMap::from([(JOB_MEMO.to_owned(), to_payload(&work)?)]) }),
        workflow_start_delay: if is_orphan { NEVER.try_into().ok() } else { None },
        priority: Some(Priority {
            priority_key: priority_key(job.priority()),
            fairness_key: job.tenant().map(fairness_key).unwrap_or_default(),
            fairness_weight: 0.0,
        }),
        ..StartWorkflowExecutionRequest::default()
    };
    match server.calls().start_workflow_execution(request.into_request()).await {
        Ok(_) => {}
        Err(status) if status.code() == Code::AlreadyExists => {
            let same = same_job(server, &job).await;
            if same.is_err() {
                sessions::give_back(server, &job).await;
            }
            same?;
        }
        Err(status) => return Err(server.error("submit the run", &status)),
    }
    settle_child(server, &job, is_orphan).await
}

/// Waits until the server lists a child, since parents and cancellations find it by the list. Cancels it if a run above it
/// was cancelled.
async fn settle_child(server: &Server, job: &Job, is_orphan: bool) -> Result<(), EngineError> {
    if job.parent().is_none() {
        return Ok(());
    }
    let until = Instant::now() + LISTING_LIMIT;
    while !runs::is_listed(server, job.run()).await? && Instant::now() < until {
        sleep(LISTING_PAUSE).await;
    }
    // A cancellation above that looked for descendants before the list had this one has not seen it.
    if is_orphan || is_ancestor_cancelled(server, job).await? {
        cancel(server, job.run()).await?;
    }
    Ok(())
}

/// Whether the run that is there has this job.
async fn same_job(server: &Server, job: &Job) -> Result<(), EngineError> {
    match runs::find(server, job.run()).await? {
        Some(known) if known.run.job == *job => Ok(()),
        Some(_) | None => Err(EngineError::OtherJob(job.run().clone())),
    }
}

/// Whether a run above this job was cancelled. The runs between may be cancelled only later.
async fn is_ancestor_cancelled(server: &Server, job: &Job) -> Result<bool, EngineError> {
    let (mut above, mut known) = (parent_of(job), HashSet::from([job.run().clone()]));
    while let Some(run) = above.filter(|run| known.insert(run.clone())) {
        let Some(found) = runs::find(server, &run).await? else { return Ok(false) };
        if found.is_cancelled {
            return Ok(true);
        }
        above = parent_of(&found.run.job);
    }
    Ok(false)
}

/// Returns the server's priority, of which there are five: smaller numbers begin first.
pub(super) fn priority_key(priority: i8) -> i32 {
    match priority {
        64.. => 1,
        1..=63 => 2,
        0 => 3,
        -64..=-1 => 4,
        ..=-65 => 5,
    }
}

fn fairness_key(tenant: &EngineName) -> String {
    // Names are ASCII.
    tenant.as_str().chars().take(MAX_FAIRNESS_BYTES).collect()
}

/// Wakes a run.
pub(super) async fn wake(server: &Server, run: &RunId) -> Result<(), EngineError> {
    let found = runs::find(server, run).await?.ok_or_else(|| EngineError::UnknownRun(run.clone()))?;
    if found.run.phase.is_finished() {
        return Err(EngineError::Finished { run: run.clone(), phase: found.run.phase });
    }
    if found.is_leg_due {
        return Ok(());
    }
    if send_signal(server, run, WAKE_SIGNAL).await? {
        return Ok(());
    }
    let phase = runs::find(server, run).await?.map_or(RunPhase::Cancelled, |found| found.run.phase);
    Err(EngineError::Finished { run: run.clone(), phase })
}

/// Sends a signal; false if the workflow has ended.
async fn send_signal(server: &Server, run: &RunId, signal: &str) -> Result<bool, EngineError> {
    let request = SignalWorkflowExecutionRequest {
        namespace: server.namespace(),
        workflow_execution: execution(workflow_id(run)),
        signal_name: signal.to_owned(),
        identity: server.identity(),
        request_id: fresh_id(),
        ..SignalWorkflowExecutionRequest::default()
    };
    match server.calls().signal_workflow_execution(request.into_request()).await {
        Ok(_) => Ok(true),
        Err(status) if is_missing(status.code()) => Ok(false),
        Err(status) => Err(server.error("wake the run", &status)),
    }
}

/// Cancels a run and all its descendants.
pub(super) async fn cancel(server: &Server, run: &RunId) -> Result<(), EngineError> {
    let top = runs::find(server, run).await?.ok_or_else(|| EngineError::UnknownRun(run.clone()))?;
    cancel_one(server, &top).await?;
    // Read after that: a later descendant sees it for itself.
    let open = runs::open_jobs(server).await?;
    let mut parents: HashMap<RunId, Option<RunId>> =
        open.iter().map(|job| (job.run().clone(), parent_of(job))).collect();
    let mut below = Vec::new();
    for job in open.iter().filter(|job| job.run() != run) {
        if let Some(depth) = depth_below(server, job, run, &mut parents).await? {
            below.push((depth, job.run()));
        }
    }
    // Parents first, so that none is told of the end of its child and goes on.
    below.sort_by_key(|(depth, _)| *depth);
    for (_, run) in below {
        if let Some(found) = runs::find(server, run).await? {
            cancel_one(server, &found).await?;
        }
    }
    Ok(())
}

/// Returns how far below `top` a job is; `None` if it is elsewhere. Runs between may be over: these are read, and added to
/// `parents`.
async fn depth_below(
    server: &Server,
    job: &Job,
    top: &RunId,
    parents: &mut HashMap<RunId, Option<RunId>>,
) -> Result<Option<usize>, EngineError> {
    let (mut above, mut known) = (parent_of(job), HashSet::from([job.run().clone()]));
    while let Some(run) = above.filter(|run| known.insert(run.clone())) {
        if run == *top {
            return Ok(Some(known.len()));
        }
        above = match parents.get(&run) {
            Some(parent) => parent.clone(),
            None => {
                let parent = runs::find(server, &run).await?.and_then(|found| parent_of(&found.run.job));
                parents.insert(run, parent.clone());
                parent
            }
        };
    }
    Ok(None)
}

fn parent_of(job: &Job) -> Option<RunId> {
    job.parent().map(|parent| parent.run.clone())
}

async fn cancel_one(server: &Server, found: &FoundRun) -> Result<(), EngineError> {
    let run = found.run.job.run();
    match found.run.phase {
        RunPhase::Done | RunPhase::Failed | RunPhase::Cancelled => Ok(()),
        RunPhase::Running => {
            let request = RequestCancelWorkflowExecutionRequest {
                namespace: server.namespace(),
                workflow_execution: execution(workflow_id(run)),
                identity: server.identity(),
                request_id: fresh_id(),
                ..RequestCancelWorkflowExecutionRequest::default()
            };
            match server.calls().request_cancel_workflow_execution(request.into_request()).await {
                Ok(_) => Ok(()),
                Err(status) if is_missing(status.code()) => Ok(()),
                Err(status) => Err(server.error("cancel the run", &status)),
            }
        }
        // No worker need be there for it.
        RunPhase::Queued | RunPhase::Parked => {
            let request = TerminateWorkflowExecutionRequest {
                namespace: server.namespace(),
                workflow_execution: execution(workflow_id(run)),
                reason: "cancelled".to_owned(),
                identity: server.identity(),
                ..TerminateWorkflowExecutionRequest::default()
            };
            match server.calls().terminate_workflow_execution(request.into_request()).await {
                Ok(_) => {}
                Err(status) if is_missing(status.code()) => {}
                Err(status) => return Err(server.error("cancel the run", &status)),
            }
            sessions::give_back(server, &found.run.job).await;
            match found.run.job.parent() {
                Some(parent) => tell_parent(server, &parent.run).await,
                None => Ok(()),
            }
        }
    }
}

/// Tells a parent that a child has ended, unless it waits for others still.
pub(super) async fn tell_parent(server: &Server, parent: &RunId) -> Result<(), EngineError> {
    let Some(found) = runs::find(server, parent).await? else { return Ok(()) };
    if found.run.phase.is_finished() {
        return Ok(());
    }
    if found.run.phase == RunPhase::Parked {
        let is_due = match &found.run.wait {
            Some(Wait::Children(children)) => have_ended(server, children).await?,
            Some(Wait::Answer(_) | Wait::Mail | Wait::Budget | Wait::Until(_)) | None => false,
        };
        if !is_due {
            return Ok(());
        }
    }
    send_signal(server, parent, CHILD_SIGNAL).await.map(drop)
}

/// Whether all of these runs have ended. Unknown ones count as ended.
pub(super) async fn have_ended(server: &Server, runs: &[RunId]) -> Result<bool, EngineError> {
    for run in runs {
        if matches!(runs::presence(server, run).await?, Presence::Open(_)) {
            return Ok(false);
        }
    }
    Ok(true)
}
