//! Worker of any engine: the loop that takes legs, renews their leases and ends them.

mod keeper;
mod settle;
mod source;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use zk_core::service::{EngineError, Lease, LegEnd, LegFailure, Legs, Take};

use crate::error::is_transient;
use keeper::Keeper;
pub use settle::{MAX_LEG_DEATHS, Settlement, count_losses, settle_leg};
pub use source::{LegId, LegSource, Looked, Renewal, TakenLeg};

/// Number of failures in a row after which a worker gives up, at about one poll of its source a second.
const MAX_FAILURES: u32 = 30;

/// Number of attempts to record the end of a leg, and pause between two of them.
const RECORD_ATTEMPTS: u32 = 3;
const RECORD_PAUSE: Duration = Duration::from_millis(300);

/// Serves the legs of `source` until `stop` is cancelled or the worker is asked to drain, and returns once all its legs have
/// ended. Leases are renewed meanwhile, and legs are told when theirs are lost or their runs cancelled.
///
/// # Errors
/// The error of the source that does not pass, or that did not pass within half a minute.
pub async fn serve_legs(
    source: Arc<dyn LegSource>,
    take: Take,
    legs: Arc<dyn Legs>,
    stop: CancellationToken,
) -> Result<(), EngineError> {
    let keeper = Arc::new(Keeper::default());
    // Dropping the set ends these tasks, also if this future is dropped.
    let mut keeping = JoinSet::new();
    keeping.spawn(keeper.clone().renew_leases(source.clone(), take.lease));
    keeping.spawn(keeper.clone().expire_leases(take.lease));
    let mut worker = Worker {
        source,
        take,
        legs,
        // Cancelled by `stop`, or by a request to drain in the source.
        draining: stop.child_token(),
        keeper,
        running: JoinSet::new(),
        failures: 0,
    };
    worker.run().await
}

struct Worker {
    source: Arc<dyn LegSource>,
    take: Take,
    legs: Arc<dyn Legs>,
    draining: CancellationToken,
    keeper: Arc<Keeper>,
    running: JoinSet<()>,
    /// Number of failed polls of the source in a row.
    failures: u32,
}

impl Worker {
    async fn run(&mut self) -> Result<(), EngineError> {
        loop {
            let began = match self.poll_source().await {
                Ok(began) => {
                    self.failures = 0;
                    began
                }
                Err(error) => {
                    self.failures += 1;
                    if is_transient(&error) && self.failures < MAX_FAILURES {
                        0
                    } else {
                        // The source may be gone: running legs end, and their sessions keep all data.
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
                () = self.source.wait() => {}
            }
        }
    }

    /// Polls the source once: begins legs that are due, and signals cancellations to running ones. Returns the
    /// number of legs that began.
    async fn poll_source(&mut self) -> Result<usize, EngineError> {
        let looked = self.source.look(&self.take).await?;
        self.keeper.signal_cancel(&looked.cancelled);
        if looked.is_draining {
            self.draining.cancel();
        }
        let room = self.take.max_legs.saturating_sub(self.running.len());
        if !looked.is_due || room == 0 || self.draining.is_cancelled() {
            return Ok(0);
        }
        let before = Instant::now();
        let taken = self.source.take_legs(&self.take, room).await?;
        let count = taken.len();
        for TakenLeg { job, token, attempt } in taken {
            let lease = Lease::new(token).with_attempt(attempt).with_draining(self.draining.clone());
            let leg = LegId { run: job.run().clone(), token };
            self.keeper.add_lease(leg.run.clone(), lease.clone(), before + self.take.lease);
            let (source, legs, keeper) = (self.source.clone(), self.legs.clone(), self.keeper.clone());
            self.running.spawn(async move {
                let ended = AssertUnwindSafe(legs.leg(&job, lease)).catch_unwind().await;
                let end = ended.unwrap_or(LegEnd::Failed(LegFailure::Panicked));
                record_end(&*source, &leg, &end).await;
                keeper.remove_lease(&leg);
            });
        }
        Ok(count)
    }
}

/// Records the end of a leg, with a few attempts. If all fail, the lease expires, and the next leg continues
/// from the session.
async fn record_end(source: &dyn LegSource, leg: &LegId, end: &LegEnd) {
    for _ in 0..RECORD_ATTEMPTS {
        match source.end_leg(leg, end).await {
            Ok(()) => break,
            Err(error) if is_transient(&error) => sleep(RECORD_PAUSE).await,
            Err(_) => break,
        }
    }
}
