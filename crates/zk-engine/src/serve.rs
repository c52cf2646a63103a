use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use zk_core::service::{EngineError, EngineName, Job, Lease, LegEnd, LegFailure, Legs, StateLock, Take};

use crate::bell::Bell;
use crate::error::is_transient;
use crate::keeper::Keeper;
use crate::local::LocalEngine;
use crate::rows::Taken;
use crate::{rows, schedules};

/// Number of failures in a row after which a worker gives up, at about one poll of the file a second.
const MAX_FAILURES: u32 = 30;

/// Number of attempts to record the end of a leg, and pause between two of them.
const RECORD_ATTEMPTS: u32 = 3;
const RECORD_PAUSE: Duration = Duration::from_millis(300);

/// Serves legs until `stop` is cancelled or the worker is drained.
pub(crate) async fn serve(
    engine: &LocalEngine,
    take: Take,
    legs: Arc<dyn Legs>,
    stop: CancellationToken,
) -> Result<(), EngineError> {
    let _name = lock_name(engine, &take.worker).await?;
    let name = take.worker.clone();
    engine
        .write_transaction("begin to serve", move |conn| schedules::begin_worker(conn, &name).map(Ok))
        .await?;
    let keeper = Arc::new(Keeper::default());
    // Dropping the set ends these tasks, also if this future is dropped.
    let mut keeping = JoinSet::new();
    keeping.spawn(keeper.clone().renew_leases(engine.clone(), take.lease));
    keeping.spawn(keeper.clone().expire_leases(take.lease));
    let name = take.worker.clone();
    let mut worker = Worker {
        engine,
        bell: Bell::open(&engine.workers_dir(), &take.worker),
        take,
        legs,
        // Cancelled by `stop`, or by a request to drain in the file.
        draining: stop.child_token(),
        keeper,
        running: JoinSet::new(),
        failures: 0,
    };
    let served = worker.run().await;
    drop(keeping);
    let ended =
        engine.write_transaction("end serving", move |conn| schedules::end_worker(conn, &name).map(Ok)).await;
    // Other workers can take the legs that were handed over.
    engine.ring().await;
    served.and(ended)
}

async fn lock_name(engine: &LocalEngine, worker: &EngineName) -> Result<StateLock, EngineError> {
    let (files, path) = (engine.files().clone(), engine.lock_path(worker));
    let failed = |why: String| EngineError::Failed { doing: "lock the name of the worker", why };
    let locked = tokio::task::spawn_blocking(move || files.try_lock(&path)).await;
    let locked = locked.map_err(|error| failed(error.to_string()))?;
    locked.map_err(|error| failed(error.to_string()))?.ok_or_else(|| EngineError::NameTaken(worker.clone()))
}

struct Worker<'a> {
    engine: &'a LocalEngine,
    bell: Bell,
    take: Take,
    legs: Arc<dyn Legs>,
    draining: CancellationToken,
    keeper: Arc<Keeper>,
    running: JoinSet<()>,
    /// Number of failed polls of the file in a row.
    failures: u32,
}

impl Worker<'_> {
    async fn run(&mut self) -> Result<(), EngineError> {
        loop {
            let began = match self.poll_file().await {
                Ok(began) => {
                    self.failures = 0;
                    began
                }
                Err(error) => {
                    self.failures += 1;
                    if is_transient(&error) && self.failures < MAX_FAILURES {
                        0
                    } else {
                        // The file may be gone: running legs end, and their sessions keep all data.
                        self.draining.cancel();
                        while self.running.join_next().await.is_some() {}
                        return Err(error);
                    }
                }
            };
            let is_idle = self.running.is_empty();
            if is_idle
                && (self.draining.is_cancelled() || (self.take.once && began == 0 && self.failures == 0))
            {
                return Ok(());
            }
            tokio::select! {
                () = self.draining.cancelled(), if !self.draining.is_cancelled() => {}
                _ = self.running.join_next(), if !is_idle => {}
                () = self.bell.wait() => {}
            }
        }
    }

    /// Polls the file once: begins legs that are due, and signals cancellations to running ones. Returns the
    /// number of legs that began.
    async fn poll_file(&mut self) -> Result<usize, EngineError> {
        let take = self.take.clone();
        let looked = self.engine.read_transaction("look for work", move |conn| {
            let is_draining = schedules::is_draining(conn, &take.worker)?;
            Ok((is_draining, rows::cancelled_runs(conn, &take.worker)?, rows::is_work_due(conn, &take)?))
        });
        let (is_draining, cancelled, is_due) = looked.await?;
        self.keeper.signal_cancel(&cancelled);
        if is_draining {
            self.draining.cancel();
        }
        let room = self.take.max_legs.saturating_sub(self.running.len());
        if !is_due || room == 0 || self.draining.is_cancelled() {
            return Ok(0);
        }
        let (take, before) = (self.take.clone(), Instant::now());
        let taken = self.engine.write_transaction("take runs", move |conn| {
            if let Err(error) = schedules::submit_due(conn)? {
                return Ok(Err(error));
            }
            rows::take_runs(conn, &take, room)
        });
        let taken = taken.await?;
        let count = taken.len();
        for Taken { job, token, attempt } in taken {
            let lease = Lease::new(token).with_attempt(attempt).with_draining(self.draining.clone());
            self.keeper.add_lease(job.run().clone(), lease.clone(), before + self.take.lease);
            let (engine, legs, keeper) = (self.engine.clone(), self.legs.clone(), self.keeper.clone());
            self.running.spawn(async move {
                let leg = AssertUnwindSafe(legs.leg(&job, lease)).catch_unwind().await;
                let end = leg.unwrap_or(LegEnd::Failed(LegFailure::Panicked));
                record_end(&engine, &job, token, end).await;
                keeper.remove_lease(job.run(), token);
            });
        }
        Ok(count)
    }
}

/// Records the end of a leg, with a few attempts. If all fail, the lease expires, and the next leg continues
/// from the session.
async fn record_end(engine: &LocalEngine, job: &Job, token: u64, end: LegEnd) {
    for _ in 0..RECORD_ATTEMPTS {
        let (run, end) = (job.run().clone(), end.clone());
        let ended = engine
            .write_transaction("record the end of a leg", move |conn| rows::end_leg(conn, &run, token, &end));
        match ended.await {
            Ok(_) => break,
            Err(error) if is_transient(&error) => sleep(RECORD_PAUSE).await,
            Err(_) => break,
        }
    }
}
