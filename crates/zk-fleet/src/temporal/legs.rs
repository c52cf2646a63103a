//! Legs and short activities of a worker.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use temporalio_client::tonic::{Code, IntoRequest};
use temporalio_common::protos::temporal::api::enums::v1::TaskQueueType;
use temporalio_common::protos::temporal::api::failure::v1::Failure;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    PollActivityTaskQueueRequest, PollActivityTaskQueueResponse, RecordActivityTaskHeartbeatRequest,
    RespondActivityTaskCompletedRequest, RespondActivityTaskFailedRequest, ShutdownWorkerRequest,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zk_core::model::RunId;
use zk_core::service::{EngineName, HandoverCause, Lease, LegEnd, LegFailure, Legs, RunPhase, Take};
use zk_engine::{Settlement, settle_leg};

use super::changes;
use super::order::{CHILDREN_TYPE, LegOrder, LegReport, ReportedEnd, TELL_TYPE, notes_queue};
use super::server::{Server, from_payloads, from_wire, is_missing, named_queue, request_once, to_payloads};
use super::{runs, sessions};

/// Time of one poll of the server, which answers a second before it ends.
const POLL_TIME: Duration = Duration::from_secs(30);

/// Time of one poll when other queues may wait for its place.
const SHORT_POLL_TIME: Duration = Duration::from_secs(3);

/// Pause after a failed poll.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// Time for the end of a poll after the server was asked to end it.
const POLL_END_TIME: Duration = Duration::from_millis(800);

/// Longest time for one call.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// Number of short activities that run at a time.
const MAX_NOTES: usize = 4;

/// Pause between two looks at a workflow that is about to end.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Number of attempts to report the end of a leg, each with repetitions of its own.
const REPORT_ATTEMPTS: u32 = 3;

/// Legs of a worker.
#[derive(Clone)]
pub(super) struct LegRunner {
    server: Server,
    worker: EngineName,
    legs: Arc<dyn Legs>,
    places: Arc<Semaphore>,
    draining: CancellationToken,
    /// Cancelled when the worker is dropped.
    killed: CancellationToken,
    running: TaskTracker,
    /// Key of this process, by which the server ends its polls.
    key: String,
    /// Number of queues that share the places.
    queues: Arc<AtomicUsize>,
}

impl LegRunner {
    pub(super) fn new(
        server: Server,
        take: &Take,
        legs: Arc<dyn Legs>,
        (draining, killed): (CancellationToken, CancellationToken),
    ) -> Self {
        Self {
            server,
            worker: take.worker.clone(),
            legs,
            places: Arc::new(Semaphore::new(take.max_legs.clamp(1, Semaphore::MAX_PERMITS))),
            draining,
            killed,
            running: TaskTracker::new(),
            key: super::server::fresh_id(),
            queues: Arc::default(),
        }
    }

    /// Returns the running legs.
    pub(super) fn running(&self) -> &TaskTracker {
        &self.running
    }

    /// Takes the legs and short activities of a task queue until the worker drains. Never returns before.
    pub(super) async fn serve_queue(self, queue: String) {
        let (places, queues) = (Arc::new(Semaphore::new(MAX_NOTES)), Arc::new(AtomicUsize::new(1)));
        let notes = Self { places, queues, ..self.clone() };
        let notes_queue = notes_queue(&queue);
        self.queues.fetch_add(1, Ordering::Relaxed);
        tokio::join!(self.serve_legs(&queue), notes.serve_notes(&notes_queue));
    }

    async fn serve_legs(&self, queue: &str) {
        while let Some((place, task)) = self.next_task(queue).await {
            if self.draining.is_cancelled() {
                // The poll was answered while it ended.
                self.report_leg(&task, &LegEnd::Handover(HandoverCause::Draining)).await;
                break;
            }
            let (runner, killed) = (self.clone(), self.killed.clone());
            self.running.spawn(async move {
                killed.run_until_cancelled(runner.run_leg(task)).await;
                drop(place);
            });
        }
    }

    async fn serve_notes(&self, queue: &str) {
        while let Some((place, task)) = self.next_task(queue).await {
            let (runner, killed) = (self.clone(), self.killed.clone());
            self.running.spawn(async move {
                killed.run_until_cancelled(runner.run_note(task)).await;
                drop(place);
            });
        }
    }

    /// Waits for a place and a task for it; `None` once the worker drains.
    async fn next_task(&self, queue: &str) -> Option<(OwnedSemaphorePermit, PollActivityTaskQueueResponse)> {
        loop {
            let place = self.draining.run_until_cancelled(self.places.clone().acquire_owned()).await?.ok()?;
            let request = PollActivityTaskQueueRequest {
                namespace: self.server.namespace(),
                task_queue: named_queue(queue),
                identity: self.server.identity(),
                worker_instance_key: self.key.clone(),
                ..PollActivityTaskQueueRequest::default()
            };
            let mut calls = self.server.calls();
            let mut poll = calls.poll_activity_task_queue(request_once(request, self.poll_time()));
            let polled = match self.draining.run_until_cancelled(&mut poll).await {
                Some(polled) => polled,
                None => {
                    // A poll that is cut off may take a task with it, which is missed only after a lease.
                    self.end_polls(queue).await;
                    match timeout(POLL_END_TIME, poll).await {
                        Ok(polled) => polled,
                        Err(_) => return None,
                    }
                }
            };
            match polled {
                Ok(task) if !task.get_ref().task_token.is_empty() => return Some((place, task.into_inner())),
                Ok(_) => {}
                Err(status) if status.code() == Code::DeadlineExceeded => {}
                Err(_) => sleep(RETRY_PAUSE).await,
            }
            if self.draining.is_cancelled() {
                return None;
            }
        }
    }

    /// Returns the time of a poll that has its place. A long poll leaves places for a poll, or a leg, of each queue.
    fn poll_time(&self) -> Duration {
        let queues = self.queues.load(Ordering::Relaxed);
        let is_scarce = queues > 1 && self.places.available_permits() < queues;
        if is_scarce { SHORT_POLL_TIME } else { POLL_TIME }
    }

    async fn end_polls(&self, queue: &str) {
        let request = ShutdownWorkerRequest {
            namespace: self.server.namespace(),
            identity: self.server.identity(),
            reason: "drain".to_owned(),
            worker_instance_key: self.key.clone(),
            task_queue: queue.to_owned(),
            task_queue_types: vec![TaskQueueType::Activity.into()],
            ..ShutdownWorkerRequest::default()
        };
        let _ = self.server.calls().shutdown_worker(request_once(request, CALL_LIMIT)).await;
    }

    async fn run_leg(&self, task: PollActivityTaskQueueResponse) {
        let begun = Instant::now();
        let Some(order) = from_payloads::<LegOrder>(task.input.as_ref()) else {
            // A newer zk wrote the job: another worker may know its format.
            self.report_leg(&task, &LegEnd::Handover(HandoverCause::TooNew)).await;
            return;
        };
        let lease = Lease::new(order.token).with_attempt(order.attempt).with_draining(self.draining.clone());
        let time = from_wire(task.heartbeat_timeout, Take::DEFAULT_LEASE);
        let keeping = self.keep_lease(&task.task_token, &lease, begun, time);
        let leg = AssertUnwindSafe(self.legs.leg(&order.job, lease.clone())).catch_unwind();
        let end = tokio::select! {
            end = leg => end.unwrap_or(LegEnd::Failed(LegFailure::Panicked)),
            never = keeping => never,
        };
        let is_taken = self.report_leg(&task, &end).await;
        match settle_leg(&end, 0) {
            Settlement::End(RunPhase::Done, _) if is_taken => self.give_back_once_over(&order).await,
            Settlement::End(..) if is_taken => sessions::give_back(&self.server, &order.job).await,
            Settlement::End(..) | Settlement::Queue | Settlement::Pause(_) | Settlement::Park(_) => {}
        }
    }

    /// Gives the session of a run back once its workflow is over. A run that was woken during the leg has another leg instead.
    async fn give_back_once_over(&self, order: &LegOrder) {
        let until = Instant::now() + changes::STEP_LIMIT;
        while Instant::now() < until {
            match runs::find(&self.server, order.job.run()).await {
                Ok(Some(found)) if found.run.phase.is_finished() => {
                    sessions::give_back(&self.server, &order.job).await;
                    return;
                }
                Ok(Some(found)) if found.run.legs > order.attempt => return,
                Ok(_) | Err(_) => sleep(LOOK_PAUSE).await,
            }
        }
        // A later run takes the session from one that is over.
    }

    /// Reports to the server that the leg goes on, and tells the leg what becomes of its lease. Never returns.
    async fn keep_lease(&self, task_token: &[u8], lease: &Lease, begun: Instant, time: Duration) -> LegEnd {
        let mut until = begun + time;
        let mut pause = time / 3;
        loop {
            sleep(pause).await;
            let sent = Instant::now();
            let request = RecordActivityTaskHeartbeatRequest {
                task_token: task_token.to_vec(),
                identity: self.server.identity(),
                namespace: self.server.namespace(),
                ..RecordActivityTaskHeartbeatRequest::default()
            };
            let mut calls = self.server.calls();
            let call = calls.record_activity_task_heartbeat(request_once(request, CALL_LIMIT));
            match timeout_at(until, call).await {
                Ok(Ok(reply)) => {
                    (until, pause) = (sent + time, time / 3);
                    if reply.get_ref().cancel_requested {
                        lease.cancelled().cancel();
                    }
                }
                Ok(Err(status)) if is_missing(status.code()) => break,
                Ok(Err(_)) if Instant::now() < until => pause = time / 10,
                Ok(Err(_)) | Err(_) => break,
            }
        }
        lease.lost().cancel();
        std::future::pending().await
    }

    /// Reports the end of a leg. If that fails, the server misses the leg after a lease, and the next one continues
    /// from the session. Returns whether the server took it.
    async fn report_leg(&self, task: &PollActivityTaskQueueResponse, end: &LegEnd) -> bool {
        self.report(task, &LegReport { worker: self.worker.clone(), end: ReportedEnd::from(end) }).await
    }

    async fn report<T: serde::Serialize>(&self, task: &PollActivityTaskQueueResponse, result: &T) -> bool {
        let Ok(result) = to_payloads(result) else { return false };
        let request = RespondActivityTaskCompletedRequest {
            task_token: task.task_token.clone(),
            result,
            identity: self.server.identity(),
            namespace: self.server.namespace(),
            ..RespondActivityTaskCompletedRequest::default()
        };
        for _ in 0..REPORT_ATTEMPTS {
            match self.server.calls().respond_activity_task_completed(request.clone().into_request()).await {
                Ok(_) => return true,
                // Another worker has the run by now.
                Err(status) if is_missing(status.code()) => break,
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
        false
    }

    async fn run_note(&self, task: PollActivityTaskQueueResponse) {
        let kind = task.activity_type.as_ref().map_or("", |kind| kind.name.as_str());
        let done = match kind {
            CHILDREN_TYPE => {
                let runs: Vec<RunId> = from_payloads(task.input.as_ref()).unwrap_or_default();
                match changes::have_ended(&self.server, &runs).await {
                    Ok(ended) => self.report(&task, &ended).await,
                    Err(_) => false,
                }
            }
            TELL_TYPE => {
                let told = match from_payloads::<RunId>(task.input.as_ref()) {
                    Some(parent) => changes::tell_parent(&self.server, &parent).await,
                    None => Ok(()),
                };
                told.is_ok() && self.report(&task, &()).await
            }
            _ => false,
        };
        if !done {
            // The server repeats it.
            let request = RespondActivityTaskFailedRequest {
                task_token: task.task_token,
                failure: Some(Failure { message: "try again".to_owned(), ..Failure::default() }),
                identity: self.server.identity(),
                namespace: self.server.namespace(),
                ..RespondActivityTaskFailedRequest::default()
            };
            let _ = self.server.calls().respond_activity_task_failed(request_once(request, CALL_LIMIT)).await;
        }
    }
}
