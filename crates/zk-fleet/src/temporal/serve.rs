//! A worker: holds its name, advances workflows and runs legs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use temporalio_common::protos::temporal::api::failure::v1::Failure;
use temporalio_common::protos::temporal::api::workflowservice::v1::RespondActivityTaskFailedByIdRequest;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use zk_core::service::{EngineError, EngineName, Legs, RunFilter, RunPhase, Take};

use super::flows::Flows;
use super::legs::LegRunner;
use super::order::{task_queue, workflow_id};
use super::runs::{self, FoundRun};
use super::server::{Server, Target, request_once};
use super::workers::HeldName;

/// Pause between two looks for new queues, and for the end of work.
const QUEUE_PAUSE: Duration = Duration::from_secs(3);
const ONCE_PAUSE: Duration = Duration::from_millis(100);

/// Longest time for one call.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// Time for which the server may be away before a worker gives up.
const AWAY_LIMIT: Duration = Duration::from_secs(300);

/// Serves legs until `stop` is cancelled or the worker is drained.
pub(super) async fn serve(
    target: &Target,
    take: Take,
    legs: Arc<dyn Legs>,
    stop: CancellationToken,
) -> Result<(), EngineError> {
    let server = Server::connect(target, Some(take.worker.as_str())).await?;
    let name = Arc::new(HeldName::take(&server, &take.worker, take.lease).await?);
    let draining = stop.child_token();
    // Dropping this future ends all of it, as a kill would.
    let killed = CancellationToken::new();
    let _killed = killed.clone().drop_guard();
    let mut holding = JoinSet::new();
    let (held, holder, drained) = (name.clone(), server.clone(), draining.clone());
    holding.spawn(async move { held.hold(holder, drained).await });
    let mut worker = Worker {
        runner: LegRunner::new(server.clone(), &take, legs, (draining.clone(), killed)),
        flows: Flows::start(server.target().clone(), take.worker.to_string())?,
        polls: JoinSet::new(),
        queues: HashSet::new(),
        since: name.since,
        server,
        take,
        draining,
    };
    let served = worker.run().await;
    let server = worker.server.clone();
    worker.end().await;
    drop(holding);
    name.free(&server).await;
    served
}

struct Worker {
    server: Server,
    take: Take,
    runner: LegRunner,
    flows: Flows,
    polls: JoinSet<()>,
    queues: HashSet<EngineName>,
    draining: CancellationToken,
    /// Begin of this process, by the server's clock.
    since: SystemTime,
}

impl Worker {
    async fn run(&mut self) -> Result<(), EngineError> {
        for queue in self.take.queues.clone() {
            self.add_queue(queue);
        }
        if self.take.queues.is_empty() {
            self.add_queue(EngineName::new(Take::DEFAULT_QUEUE)?);
        }
        self.end_left_legs().await?;
        let mut ticks = interval(if self.take.once { ONCE_PAUSE } else { QUEUE_PAUSE });
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = Instant::now();
        loop {
            tokio::select! {
                () = self.draining.cancelled() => return Ok(()),
                ended = self.flows.ended() => {
                    self.draining.cancel();
                    return ended;
                }
                _ = ticks.tick() => {}
            }
            match self.look().await {
                Ok(true) if self.take.once => {
                    self.draining.cancel();
                    return Ok(());
                }
                Ok(_) => seen = Instant::now(),
                Err(_) if seen.elapsed() < AWAY_LIMIT => {}
                Err(error) => {
                    self.draining.cancel();
                    return Err(error);
                }
            }
        }
    }

    /// Looks for new queues, and returns whether nothing is to do.
    async fn look(&mut self) -> Result<bool, EngineError> {
        if self.take.queues.is_empty() {
            for queue in runs::open_queues(&self.server).await? {
                self.add_queue(queue);
            }
        } else {
            self.server.check_reachable(CALL_LIMIT).await?;
        }
        if !self.take.once || !self.runner.running().is_empty() {
            return Ok(false);
        }
        let open = runs::list_open(&self.server).await?;
        Ok(self.runner.running().is_empty() && !open.iter().any(|found| self.is_due(found)))
    }

    /// Whether a run needs this worker.
    fn is_due(&self, found: &FoundRun) -> bool {
        let queue = found.run.job.queue().map_or(Take::DEFAULT_QUEUE, EngineName::as_str);
        let is_here = self.queues.iter().any(|known| known.as_str() == queue);
        let is_mine = found.run.worker.as_ref() == Some(&self.take.worker);
        let is_ready = match found.run.phase {
            RunPhase::Queued => true,
            RunPhase::Running => is_mine,
            RunPhase::Parked | RunPhase::Done | RunPhase::Failed | RunPhase::Cancelled => false,
        };
        is_here && (is_ready || found.is_busy)
    }

    fn add_queue(&mut self, queue: EngineName) {
        if self.draining.is_cancelled() || self.queues.contains(&queue) {
            return;
        }
        let name = task_queue(queue.as_str());
        self.queues.insert(queue);
        self.flows.add_queue(name.clone());
        self.polls.spawn(self.runner.clone().serve_queue(name));
    }

    /// Ends the legs that an earlier process of this name left: that it holds no name any more says that it is gone.
    async fn end_left_legs(&self) -> Result<(), EngineError> {
        let open = runs::list(&self.server, &RunFilter::phases([RunPhase::Running])).await?;
        for found in open.iter().filter(|found| found.run.worker.as_ref() == Some(&self.take.worker)) {
            let Some(leg) = found.leg_activity.as_ref().filter(|_| found.leg_since < self.since) else {
                continue;
            };
            let request = RespondActivityTaskFailedByIdRequest {
                namespace: self.server.namespace(),
                workflow_id: workflow_id(found.run.job.run()),
                activity_id: leg.clone(),
                failure: Some(Failure { message: "the worker died".to_owned(), ..Failure::default() }),
                identity: self.server.identity(),
                ..RespondActivityTaskFailedByIdRequest::default()
            };
            // The leg may have been missed meanwhile.
            let _ = self
                .server
                .calls()
                .respond_activity_task_failed_by_id(request_once(request, CALL_LIMIT))
                .await;
        }
        Ok(())
    }

    /// Ends once all legs have ended.
    async fn end(mut self) {
        self.draining.cancel();
        while self.polls.join_next().await.is_some() {}
        self.runner.running().close();
        self.runner.running().wait().await;
        self.flows.stop().await;
    }
}
