//! Hold of a run on its session. It is an activity outside of workflows that nobody runs: its id is the session's, so that the server
//! grants it once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use temporalio_client::tonic::{Code, IntoRequest};
use temporalio_common::protos::temporal::api::enums::v1::{
    ActivityExecutionStatus, ActivityIdConflictPolicy, ActivityIdReusePolicy,
};
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    DescribeActivityExecutionRequest, StartActivityExecutionRequest, TerminateActivityExecutionRequest,
};
use zk_core::model::{RunId, SessionId};
use zk_core::service::{EngineError, Job, RunPhase};

use super::order::{CLOCK_TYPE, SESSION_TYPE, scheduled_run_of, session_id, session_queue};
use super::runs::{self, Presence};
use super::server::{
    Server, activity_type, fresh_id, from_payloads, from_wire, is_missing, named_queue, to_payloads,
};

/// Time after which a hold without a run has been left behind. Calls of a submission end long before.
const MAX_SUBMISSION: Duration = Duration::from_secs(120);

/// Time after which the activity ends whose time is the server's.
const CLOCK_LIMIT: Duration = Duration::from_secs(10);

/// Longest time for which a run may hold its session.
const MAX_HOLD: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Number of attempts to take a session from runs that are over.
const TAKE_ATTEMPTS: u32 = 5;

/// Hold that was found.
struct Held {
    run: RunId,
    activity_run: String,
    /// Begin of the hold, by the server's clock.
    since: SystemTime,
}

/// Takes a session for a run; the same run may take it again.
pub(super) async fn take(server: &Server, job: &Job) -> Result<(), EngineError> {
    scheduled_run_is_over(server, job).await?;
    for _ in 0..TAKE_ATTEMPTS {
        let request = StartActivityExecutionRequest {
            namespace: server.namespace(),
            identity: server.identity(),
            request_id: fresh_id(),
            activity_id: session_id(job.session()),
            activity_type: activity_type(SESSION_TYPE),
            task_queue: named_queue(&session_queue()),
            schedule_to_close_timeout: MAX_HOLD.try_into().ok(),
            input: to_payloads(job.run())?,
            id_reuse_policy: ActivityIdReusePolicy::AllowDuplicate.into(),
            id_conflict_policy: ActivityIdConflictPolicy::Fail.into(),
            ..StartActivityExecutionRequest::default()
        };
        match server.calls().start_activity_execution(request.into_request()).await {
            Ok(_) => return Ok(()),
            Err(status) if status.code() == Code::AlreadyExists => {}
            Err(status) => return Err(server.error("take the session", &status)),
        }
        let Some(held) = find(server, job.session()).await? else { continue };
        if held.run == *job.run() {
            return Ok(());
        }
        let taken = |phase| EngineError::SessionTaken {
            session: job.session().clone(),
            run: held.run.clone(),
            phase,
        };
        match runs::presence(server, &held.run).await? {
            Presence::Open(phase) => return Err(taken(phase)),
            Presence::Missing => {
                let age = server_time(server).await?.duration_since(held.since).unwrap_or_default();
                if age < MAX_SUBMISSION {
                    return Err(taken(RunPhase::Queued));
                }
            }
            Presence::Over => {}
        }
        end_hold(server, job.session(), held.activity_run).await?;
    }
    Err(EngineError::Failed {
        doing: "take the session",
        why: "others take it and give it back; try again".to_owned(),
    })
}

/// Refuses a session whose scheduled run is not over. Such a run is started by the server, and has no hold.
async fn scheduled_run_is_over(server: &Server, job: &Job) -> Result<(), EngineError> {
    let Some(run) = scheduled_run_of(job.session()) else { return Ok(()) };
    if run == *job.run() {
        return Ok(());
    }
    match runs::find(server, &run).await? {
        Some(found) if found.run.job.session() == job.session() && !found.run.phase.is_finished() => {
            Err(EngineError::SessionTaken { session: job.session().clone(), run, phase: found.run.phase })
        }
        Some(_) | None => Ok(()),
    }
}

/// Gives the session of a run back, if the run has it. A session that is not given back is taken from the run later, since that is
/// over.
pub(super) async fn give_back(server: &Server, job: &Job) {
    if let Ok(Some(held)) = find(server, job.session()).await
        && held.run == *job.run()
    {
        let _ = end_hold(server, job.session(), held.activity_run).await;
    }
}

async fn find(server: &Server, session: &SessionId) -> Result<Option<Held>, EngineError> {
    let request = DescribeActivityExecutionRequest {
        namespace: server.namespace(),
        activity_id: session_id(session),
        include_input: true,
        ..DescribeActivityExecutionRequest::default()
    };
    let described = match server.calls().describe_activity_execution(request.into_request()).await {
        Ok(described) => described.into_inner(),
        Err(status) if is_missing(status.code()) => return Ok(None),
        Err(status) => return Err(server.error("look at the session", &status)),
    };
    let Some(info) = described.info.filter(|info| info.status() == ActivityExecutionStatus::Running) else {
        return Ok(None);
    };
    let Some(run) = from_payloads(described.input.as_ref()) else { return Ok(None) };
    let since = from_wire(info.schedule_time, UNIX_EPOCH);
    Ok(Some(Held { run, activity_run: info.run_id, since }))
}

/// Returns the server's time, as that of an activity that nobody runs. Clocks of submitters may be wrong.
pub(super) async fn server_time(server: &Server) -> Result<SystemTime, EngineError> {
    let failed = |status| server.error("read the server's clock", &status);
    let id = format!("{}:{}", session_queue(), fresh_id());
    let request = StartActivityExecutionRequest {
        namespace: server.namespace(),
        request_id: fresh_id(),
        activity_id: id.clone(),
        activity_type: activity_type(CLOCK_TYPE),
        task_queue: named_queue(&session_queue()),
        schedule_to_close_timeout: CLOCK_LIMIT.try_into().ok(),
        ..StartActivityExecutionRequest::default()
    };
    server.calls().start_activity_execution(request.into_request()).await.map_err(failed)?;
    let request = DescribeActivityExecutionRequest {
        namespace: server.namespace(),
        activity_id: id,
        ..DescribeActivityExecutionRequest::default()
    };
    let described =
        server.calls().describe_activity_execution(request.into_request()).await.map_err(failed)?;
    Ok(from_wire(described.into_inner().info.and_then(|info| info.schedule_time), UNIX_EPOCH))
}

async fn end_hold(server: &Server, session: &SessionId, activity_run: String) -> Result<(), EngineError> {
    let request = TerminateActivityExecutionRequest {
        namespace: server.namespace(),
        activity_id: session_id(session),
        run_id: activity_run,
        identity: server.identity(),
        request_id: fresh_id(),
        reason: "the run is over".to_owned(),
    };
    match server.calls().terminate_activity_execution(request.into_request()).await {
        Ok(_) => Ok(()),
        Err(status) if matches!(status.code(), Code::NotFound | Code::FailedPrecondition) => Ok(()),
        Err(status) => Err(server.error("give the session back", &status)),
    }
}
