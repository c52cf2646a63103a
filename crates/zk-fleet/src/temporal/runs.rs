//! States of runs, as the server's data show them.

use std::collections::{BTreeSet, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt, TryStreamExt, stream};
use temporalio_client::tonic::{IntoRequest, Response, Status};
use temporalio_common::protos::temporal::api::enums::v1::{PendingActivityState, WorkflowExecutionStatus};
use temporalio_common::protos::temporal::api::workflow::v1::{PendingActivityInfo, WorkflowExecutionInfo};
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse, ListWorkflowExecutionsRequest,
    ListWorkflowExecutionsResponse,
};
use zk_core::model::RunId;
use zk_core::service::{EngineError, EngineName, EngineRun, Job, RunFilter, RunPhase, Take};

use super::order::{
    JOB_MEMO, LEG_TYPE, PROGRESS_MEMO, Progress, RUN_TYPE, Work, date_of, queue_of, run_of_workflow,
    task_queue, workflow_id,
};
use super::server::{Server, execution, from_memo, from_wire, is_missing};

/// Number of runs on a page of the server's list.
const PAGE_RUNS: i32 = 500;

/// Condition of the executions of open runs, for the server's list. A run that continues as new is listed for a moment by its
/// last execution alone.
const OPEN: &str = "ExecutionStatus IN ('Running', 'ContinuedAsNew')";

/// Number of unfinished runs whose states are read at a time.
const PARALLEL_LOOKS: usize = 16;

/// Run with what its callers need besides the public state.
#[derive(Clone, Debug)]
pub(super) struct FoundRun {
    pub(super) run: EngineRun,
    /// Whether the workflow still has something to do that is no leg.
    pub(super) is_busy: bool,
    /// Activity of the present leg, if a worker has it.
    pub(super) leg_activity: Option<String>,
    /// Begin of that activity, by the server's clock.
    pub(super) leg_since: SystemTime,
    /// Whether a leg waits for a worker, so that the next one reads all mail.
    pub(super) is_leg_due: bool,
    /// Whether the run was, or is being, cancelled.
    pub(super) is_cancelled: bool,
}

/// Finds a run. Its state is the server's latest.
pub(super) async fn find(server: &Server, run: &RunId) -> Result<Option<FoundRun>, EngineError> {
    Ok(describe(server, run).await?.and_then(described_run))
}

async fn describe(
    server: &Server,
    run: &RunId,
) -> Result<Option<DescribeWorkflowExecutionResponse>, EngineError> {
    let request = DescribeWorkflowExecutionRequest {
        namespace: server.namespace(),
        execution: execution(workflow_id(run)),
    };
    match server.calls().describe_workflow_execution(request.into_request()).await {
        Ok(described) => Ok(Some(described.into_inner())),
        Err(status) if is_unknown(&status) => Ok(None),
        Err(status) => Err(server.error("look at the run", &status)),
    }
}

/// Whether the server has no such run. A namespace that does not exist is another matter.
fn is_unknown(status: &Status) -> bool {
    is_missing(status.code()) && !status.message().to_lowercase().contains("namespace")
}

/// Whether the server has a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Missing,
    Open(RunPhase),
    Over,
}

/// Returns whether the server has a run, also one that this version cannot read.
pub(super) async fn presence(server: &Server, run: &RunId) -> Result<Presence, EngineError> {
    let Some(described) = describe(server, run).await? else { return Ok(Presence::Missing) };
    let is_open = described
        .workflow_execution_info
        .as_ref()
        .is_some_and(|info| info.status() == WorkflowExecutionStatus::Running);
    let phase = described_run(described).map_or(RunPhase::Queued, |found| found.run.phase);
    Ok(if is_open && !phase.is_finished() { Presence::Open(phase) } else { Presence::Over })
}

/// Whether the server's list has a run, also one that is over.
pub(super) async fn is_listed(server: &Server, run: &RunId) -> Result<bool, EngineError> {
    let query = format!("WorkflowType = '{RUN_TYPE}' AND WorkflowId = '{}'", workflow_id(run));
    Ok(!list_page(server, query, Vec::new()).await?.executions.is_empty())
}

/// Lists runs in the order of their submission.
pub(super) async fn list(server: &Server, filter: &RunFilter) -> Result<Vec<FoundRun>, EngineError> {
    if let Some(run) = &filter.run {
        let found = find(server, run).await?;
        return Ok(found.into_iter().filter(|found| fits(&found.run, filter)).collect());
    }
    let Some(query) = query_of(filter) else { return Ok(Vec::new()) };
    let limit = filter.limit.unwrap_or(usize::MAX);
    let (mut found, mut page, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    loop {
        let listed = list_page(server, query.clone(), page).await?;
        let mut infos = listed.executions;
        infos.retain(|info| is_newest(info, &mut known));
        // A job never changes, so that only runs that may fit need a look.
        infos.retain(|info| job_of(info).is_none_or(|job| job_fits(&job, filter)));
        let runs = look_at_all(server, infos).await?;
        found.extend(runs.into_iter().filter(|found| fits(&found.run, filter)));
        page = listed.next_page_token;
        if page.is_empty() || found.len() >= limit {
            break;
        }
    }
    // The server lists the newest first.
    found.sort_by_key(|found| std::cmp::Reverse(found.run.submitted));
    found.truncate(limit);
    found.reverse();
    Ok(found)
}

/// Whether an execution is the newest of its run. The server lists the newest first.
fn is_newest(info: &WorkflowExecutionInfo, known: &mut HashSet<String>) -> bool {
    info.execution.as_ref().is_some_and(|execution| known.insert(execution.workflow_id.clone()))
}

/// Lists the runs that are open for the server: also those that are over, and whose parents are not told yet.
pub(super) async fn list_open(server: &Server) -> Result<Vec<FoundRun>, EngineError> {
    look_at_all(server, list_infos(server, open_query()).await?).await
}

/// Reads the states of listed runs. The server's list may lag behind, and does not show who has a leg.
async fn look_at_all(
    server: &Server,
    infos: Vec<WorkflowExecutionInfo>,
) -> Result<Vec<FoundRun>, EngineError> {
    let looks = stream::iter(infos).map(|info| look_at(server, info));
    let runs: Vec<Option<FoundRun>> = looks.buffered(PARALLEL_LOOKS).try_collect().await?;
    Ok(runs.into_iter().flatten().collect())
}

async fn look_at(server: &Server, info: WorkflowExecutionInfo) -> Result<Option<FoundRun>, EngineError> {
    if matches!(info.status(), WorkflowExecutionStatus::Running | WorkflowExecutionStatus::ContinuedAsNew) {
        let id = info.execution.map(|execution| execution.workflow_id).unwrap_or_default();
        return match run_of_workflow(&id) {
            Some(run) => find(server, &run).await,
            None => Ok(None),
        };
    }
    Ok(described_run(DescribeWorkflowExecutionResponse {
        workflow_execution_info: Some(info),
        ..DescribeWorkflowExecutionResponse::default()
    }))
}

/// Returns the query for the server's list; `None` if no run can fit.
fn query_of(filter: &RunFilter) -> Option<String> {
    let mut query = format!("WorkflowType = '{RUN_TYPE}'");
    if let Some(prefix) = &filter.run_prefix {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        if !prefix.bytes().all(is_name) {
            return None;
        }
        query += &format!(" AND WorkflowId STARTS_WITH '{}'", workflow_id(&RunId::from(&**prefix)));
    }
    if let Some(queue) = &filter.queue {
        query += &format!(" AND TaskQueue = '{}'", task_queue(queue.as_str()));
    }
    // A run that is over may be open for a moment, until its parent was told.
    if !filter.phases.is_empty() && filter.phases.iter().all(|phase| !phase.is_finished()) {
        query += &format!(" AND {OPEN}");
    }
    Some(query)
}

fn fits(run: &EngineRun, filter: &RunFilter) -> bool {
    job_fits(&run.job, filter) && (filter.phases.is_empty() || filter.phases.contains(&run.phase))
}

fn job_fits(job: &Job, filter: &RunFilter) -> bool {
    let queue = job.queue().map_or(Take::DEFAULT_QUEUE, EngineName::as_str);
    filter.run_prefix.as_ref().is_none_or(|prefix| job.run().as_str().starts_with(prefix))
        && filter.queue.as_ref().is_none_or(|wanted| wanted.as_str() == queue)
        && filter.session.as_ref().is_none_or(|session| job.session() == session)
        && filter.tenant.as_ref().is_none_or(|tenant| job.tenant() == Some(tenant))
        && filter.parent.as_ref().is_none_or(|parent| job.parent().is_some_and(|of| of.run == *parent))
}

/// Reads the job of a run.
fn job_of(info: &WorkflowExecutionInfo) -> Option<Job> {
    from_memo::<Work>(info.memo.as_ref(), JOB_MEMO)?.job(&info.execution.as_ref()?.workflow_id).ok()
}

/// Reads a run; `None` for a workflow of another program, or of a newer zk.
fn described_run(described: DescribeWorkflowExecutionResponse) -> Option<FoundRun> {
    let info = described.workflow_execution_info?;
    if info.r#type.as_ref().is_none_or(|kind| kind.name != RUN_TYPE) {
        return None;
    }
    let job = job_of(&info)?;
    let progress: Progress = from_memo(info.memo.as_ref(), PROGRESS_MEMO).unwrap_or_default();
    let extended = described.workflow_extended_info.unwrap_or_default();
    let is_leg = |activity: &&PendingActivityInfo| {
        activity.activity_type.as_ref().is_some_and(|kind| kind.name == LEG_TYPE)
    };
    let leg = described.pending_activities.iter().find(is_leg);
    let held = leg.filter(|leg| is_started(leg.state()));
    let has_note = leg.is_none() && !described.pending_activities.is_empty();
    let has_task = described.pending_workflow_task.is_some();
    let is_open = info.status() == WorkflowExecutionStatus::Running;
    let phase = match (progress.phase, info.status()) {
        (Some(phase), _) => phase,
        (None, WorkflowExecutionStatus::Running) if held.is_some() => RunPhase::Running,
        (None, WorkflowExecutionStatus::Running) if leg.is_some() || has_note || has_task => RunPhase::Queued,
        (None, WorkflowExecutionStatus::Running) if progress.wait.is_some() => RunPhase::Parked,
        (None, WorkflowExecutionStatus::Running | WorkflowExecutionStatus::ContinuedAsNew) => {
            RunPhase::Queued
        }
        (None, WorkflowExecutionStatus::Completed) => RunPhase::Done,
        (None, WorkflowExecutionStatus::Canceled | WorkflowExecutionStatus::Terminated) => {
            RunPhase::Cancelled
        }
        (None, _) => RunPhase::Failed,
    };
    let began = from_wire(info.start_time, UNIX_EPOCH);
    // The start of a run's first execution is known of open ones alone; later executions know the millisecond.
    let original = from_wire(extended.original_start_time, began);
    let submitted = progress.since_ms.map_or(began, date_of).min(original);
    let is_leg_due = leg.is_some() && held.is_none();
    let worker = held.and_then(|leg| EngineName::new(&leg.last_worker_identity).ok()).or(progress.worker);
    // A leg that no worker has is counted from its begin.
    let legs = progress.legs.saturating_sub(u64::from(is_leg_due));
    let run = EngineRun {
        job,
        phase,
        wait: progress.wait.filter(|_| phase == RunPhase::Parked),
        worker,
        token: if legs == 0 { 0 } else { progress.token },
        legs,
        failure: progress.failure.filter(|_| phase == RunPhase::Failed),
        is_cancelling: extended.cancel_requested && phase == RunPhase::Running,
        submitted,
        changed: from_wire(
            info.close_time,
            if progress.changed_ms > 0 { date_of(progress.changed_ms) } else { began },
        ),
    };
    Some(FoundRun {
        is_cancelled: extended.cancel_requested || phase == RunPhase::Cancelled,
        run,
        is_busy: is_open && (has_note || has_task),
        leg_activity: held.map(|leg| leg.activity_id.clone()),
        leg_since: from_wire(held.and_then(|leg| leg.last_started_time), UNIX_EPOCH),
        is_leg_due,
    })
}

fn is_started(state: PendingActivityState) -> bool {
    match state {
        PendingActivityState::Started
        | PendingActivityState::CancelRequested
        | PendingActivityState::PauseRequested => true,
        PendingActivityState::Unspecified
        | PendingActivityState::Scheduled
        | PendingActivityState::Paused => false,
    }
}

/// Lists the ids of the runs that this version cannot read.
pub(super) async fn list_unreadable(server: &Server) -> Result<Vec<String>, EngineError> {
    let query = query_of(&RunFilter::default()).unwrap_or_default();
    let mut infos = list_infos(server, query).await?;
    infos.retain(|info| job_of(info).is_none());
    let ids = infos.into_iter().filter_map(|info| run_of_workflow(&info.execution?.workflow_id));
    Ok(ids.map(|run| run.to_string()).collect())
}

/// Returns the task queues of the open runs.
pub(super) async fn open_queues(server: &Server) -> Result<BTreeSet<EngineName>, EngineError> {
    let query = format!("WorkflowType = '{RUN_TYPE}' AND ExecutionStatus = 'Running'");
    let infos = list_infos(server, query).await?;
    Ok(infos.iter().filter_map(|info| queue_of(&info.task_queue)).collect())
}

/// Returns the jobs of the open runs.
pub(super) async fn open_jobs(server: &Server) -> Result<Vec<Job>, EngineError> {
    let infos = list_infos(server, open_query()).await?;
    Ok(infos.iter().filter_map(job_of).collect())
}

fn open_query() -> String {
    format!("WorkflowType = '{RUN_TYPE}' AND {OPEN}")
}

/// Reads the server's list to its end.
async fn list_infos(server: &Server, query: String) -> Result<Vec<WorkflowExecutionInfo>, EngineError> {
    let (mut infos, mut page, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    loop {
        let listed = list_page(server, query.clone(), page).await?;
        infos.extend(listed.executions.into_iter().filter(|info| is_newest(info, &mut known)));
        page = listed.next_page_token;
        if page.is_empty() {
            return Ok(infos);
        }
    }
}

/// Returns a page of the server's list, which has the newest first.
async fn list_page(
    server: &Server,
    query: String,
    page: Vec<u8>,
) -> Result<ListWorkflowExecutionsResponse, EngineError> {
    let request = ListWorkflowExecutionsRequest {
        namespace: server.namespace(),
        page_size: PAGE_RUNS,
        next_page_token: page,
        query,
    };
    let listed = server.calls().list_workflow_executions(request.into_request()).await;
    listed.map(Response::into_inner).map_err(|status| server.error("list the runs", &status))
}
