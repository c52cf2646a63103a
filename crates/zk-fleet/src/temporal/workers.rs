//! Names of workers. A name is an activity of its own, held by heartbeats: unique, listed, free after a death, and told to drain
//! by a cancellation.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use temporalio_client::tonic::{Code, IntoRequest};
use temporalio_common::protos::temporal::api::common::v1::RetryPolicy;
use temporalio_common::protos::temporal::api::enums::v1::{
    ActivityExecutionStatus, ActivityIdConflictPolicy, ActivityIdReusePolicy, PendingActivityState,
};
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    DescribeActivityExecutionRequest, ListActivityExecutionsRequest, PollActivityTaskQueueRequest,
    RecordActivityTaskHeartbeatRequest, RequestCancelActivityExecutionRequest,
    RespondActivityTaskCompletedRequest, StartActivityExecutionRequest,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use zk_core::service::{EngineError, EngineName};

use super::order::{WORKER_TYPE, worker_id, worker_of_id};
use super::server::{Server, activity_type, fresh_id, is_missing, named_queue, request_once, to_payloads};

/// Longest time for which a worker may serve under one hold of its name.
const MAX_SERVICE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Longest pause between two reports, which bounds the time until a worker learns that it is to drain.
const MAX_REPORT_PAUSE: Duration = Duration::from_secs(1);

/// Pause between two attempts to take a name, and time beyond the lease for which it is tried: a worker that was killed
/// still holds its name for a lease.
const TAKE_PAUSE: Duration = Duration::from_millis(200);
const TAKE_GRACE: Duration = Duration::from_secs(3);

/// Longest time for one call.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// Number of workers on a page of the server's list.
const PAGE_WORKERS: i32 = 500;

/// Name of a worker, held by this process.
pub(super) struct HeldName {
    task_token: Vec<u8>,
    lease: Duration,
    /// Begin of this hold, by the server's clock.
    pub(super) since: SystemTime,
}

impl HeldName {
    /// Takes a name, which nobody else may hold.
    pub(super) async fn take(
        server: &Server,
        name: &EngineName,
        lease: Duration,
    ) -> Result<Self, EngineError> {
        let until = Instant::now() + lease + TAKE_GRACE;
        let queue = format!("{}:{}", worker_id(name), fresh_id());
        loop {
            match server
                .calls()
                .start_activity_execution(hold_request(server, name, lease, &queue).into_request())
                .await
            {
                Ok(_) => break,
                Err(status) if status.code() == Code::AlreadyExists => {
                    if Instant::now() >= until {
                        return Err(EngineError::NameTaken(name.clone()));
                    }
                    sleep(TAKE_PAUSE).await;
                }
                Err(status) if status.code() == Code::Unimplemented => {
                    let why = "the server has no activities outside of workflows; use Temporal 1.31 or newer";
                    return Err(EngineError::Failed { doing: "take the worker's name", why: why.to_owned() });
                }
                Err(status) => return Err(server.error("take the worker's name", &status)),
            }
        }
        loop {
            let request = PollActivityTaskQueueRequest {
                namespace: server.namespace(),
                task_queue: named_queue(&queue),
                identity: server.identity(),
                ..PollActivityTaskQueueRequest::default()
            };
            let polled = server.calls().poll_activity_task_queue(request_once(request, CALL_LIMIT)).await;
            let polled =
                polled.map_err(|status| server.error("take the worker's name", &status))?.into_inner();
            if !polled.task_token.is_empty() {
                let since = super::server::from_wire(polled.started_time, UNIX_EPOCH);
                return Ok(Self { task_token: polled.task_token, lease, since });
            }
            if Instant::now() >= until {
                return Err(EngineError::NameTaken(name.clone()));
            }
        }
    }

    /// Holds the name until another has it or `draining` is cancelled, which this does when the worker is to drain.
    pub(super) async fn hold(&self, server: Server, draining: CancellationToken) {
        let pause = (self.lease / 3).min(MAX_REPORT_PAUSE);
        loop {
            let request = RecordActivityTaskHeartbeatRequest {
                task_token: self.task_token.clone(),
                identity: server.identity(),
                namespace: server.namespace(),
                ..RecordActivityTaskHeartbeatRequest::default()
            };
            match server.calls().record_activity_task_heartbeat(request_once(request, CALL_LIMIT)).await {
                Ok(reply) if reply.get_ref().cancel_requested => draining.cancel(),
                Ok(_) => {}
                // Another may have the name: this worker was frozen, and its legs are lost, too.
                Err(status) if is_missing(status.code()) => {
                    draining.cancel();
                    return;
                }
                Err(_) => {}
            }
            sleep(pause).await;
        }
    }

    /// Frees the name.
    pub(super) async fn free(&self, server: &Server) {
        let request = RespondActivityTaskCompletedRequest {
            task_token: self.task_token.clone(),
            result: to_payloads(&()).unwrap_or_default(),
            identity: server.identity(),
            namespace: server.namespace(),
            ..RespondActivityTaskCompletedRequest::default()
        };
        // A name that is not freed is free after a lease.
        let _ = server.calls().respond_activity_task_completed(request_once(request, CALL_LIMIT)).await;
    }
}

fn hold_request(
    server: &Server,
    name: &EngineName,
    lease: Duration,
    queue: &str,
) -> StartActivityExecutionRequest {
    StartActivityExecutionRequest {
        namespace: server.namespace(),
        identity: server.identity(),
        request_id: fresh_id(),
        activity_id: worker_id(name),
        activity_type: activity_type(WORKER_TYPE),
        task_queue: named_queue(queue),
        schedule_to_start_timeout: lease.try_into().ok(),
        start_to_close_timeout: MAX_SERVICE.try_into().ok(),
        heartbeat_timeout: lease.try_into().ok(),
        retry_policy: Some(RetryPolicy { maximum_attempts: 1, ..RetryPolicy::default() }),
        id_reuse_policy: ActivityIdReusePolicy::AllowDuplicate.into(),
        id_conflict_policy: ActivityIdConflictPolicy::Fail.into(),
        ..StartActivityExecutionRequest::default()
    }
}

/// Asks workers to drain, and returns their names.
pub(super) async fn drain(
    server: &Server,
    worker: Option<&EngineName>,
) -> Result<Vec<EngineName>, EngineError> {
    let names = match worker {
        Some(worker) => vec![worker.clone()],
        None => list(server).await?,
    };
    let mut asked = Vec::new();
    for name in names {
        let id = worker_id(&name);
        if hold_of(server, &id).await?.is_none() {
            continue;
        }
        let request = RequestCancelActivityExecutionRequest {
            namespace: server.namespace(),
            activity_id: id,
            identity: server.identity(),
            request_id: fresh_id(),
            reason: "drain".to_owned(),
            ..RequestCancelActivityExecutionRequest::default()
        };
        match server.calls().request_cancel_activity_execution(request.into_request()).await {
            Ok(_) => asked.push(name),
            Err(status) if matches!(status.code(), Code::NotFound | Code::FailedPrecondition) => {}
            Err(status) => return Err(server.error("drain the worker", &status)),
        }
    }
    Ok(asked)
}

/// Returns whether the worker that holds a name is to drain; `None` if nobody holds it.
async fn hold_of(server: &Server, id: &str) -> Result<Option<bool>, EngineError> {
    let request = DescribeActivityExecutionRequest {
        namespace: server.namespace(),
        activity_id: id.to_owned(),
        ..DescribeActivityExecutionRequest::default()
    };
    match server.calls().describe_activity_execution(request.into_request()).await {
        Ok(found) => {
            let held =
                found.into_inner().info.filter(|info| info.status() == ActivityExecutionStatus::Running);
            Ok(held.map(|info| info.run_state() == PendingActivityState::CancelRequested))
        }
        Err(status) if is_missing(status.code()) => Ok(None),
        Err(status) => Err(server.error("look at the worker", &status)),
    }
}

/// Lists the workers that hold their names, and whether each is to drain.
pub(super) async fn list_held(server: &Server) -> Result<Vec<(EngineName, bool)>, EngineError> {
    let mut held = Vec::new();
    for name in list(server).await? {
        if let Some(is_draining) = hold_of(server, &worker_id(&name)).await? {
            held.push((name, is_draining));
        }
    }
    Ok(held)
}

async fn list(server: &Server) -> Result<Vec<EngineName>, EngineError> {
    let (mut names, mut page) = (Vec::new(), Vec::new());
    loop {
        let request = ListActivityExecutionsRequest {
            namespace: server.namespace(),
            page_size: PAGE_WORKERS,
            next_page_token: page,
            query: format!("ActivityType = '{WORKER_TYPE}' AND ExecutionStatus = 'Running'"),
        };
        let listed = server.calls().list_activity_executions(request.into_request()).await;
        let listed = listed.map_err(|status| server.error("list the workers", &status))?.into_inner();
        names.extend(listed.executions.iter().filter_map(|info| worker_of_id(&info.activity_id)));
        page = listed.next_page_token;
        if page.is_empty() {
            names.sort();
            names.dedup();
            return Ok(names);
        }
    }
}
