use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use zk_core::model::RunId;
use zk_core::service::{EngineError, Lease};

use super::source::{LegId, LegSource, Renewal};

/// Leases of the legs that run in this process.
#[derive(Default)]
pub(crate) struct Keeper {
    held: Mutex<HashMap<RunId, Held>>,
    /// Notified when a lease is added.
    added: Notify,
}

struct Held {
    lease: Lease,
    until: Instant,
}

impl Keeper {
    /// Adds a lease that holds until `until`. An earlier lease of the run is lost by then, though nobody renews it any more.
    pub(crate) fn add_lease(&self, run: RunId, lease: Lease, until: Instant) {
        if let Some(earlier) = self.lock().insert(run, Held { lease, until }) {
            earlier.lease.lost().cancel();
        }
        self.added.notify_waiters();
    }

    /// Removes the lease of a leg that ended.
    pub(crate) fn remove_lease(&self, leg: &LegId) {
        let mut held = self.lock();
        if held.get(&leg.run).is_some_and(|held| held.lease.token() == leg.token) {
            held.remove(&leg.run);
        }
    }

    /// Returns the number of running legs.
    pub(crate) fn count_legs(&self) -> usize {
        self.lock().len()
    }

    /// Waits until there is a leg, without waking up meanwhile.
    async fn wait_for_legs(&self) {
        loop {
            let added = self.added.notified();
            if self.count_legs() > 0 {
                return;
            }
            added.await;
        }
    }

    /// Signals to legs that their runs are being cancelled.
    pub(crate) fn signal_cancel(&self, legs: &[LegId]) {
        let held = self.lock();
        for LegId { run, token } in legs {
            if let Some(held) = held.get(run).filter(|held| held.lease.token() == *token) {
                held.lease.cancelled().cancel();
            }
        }
    }

    /// Renews all leases periodically. Never returns.
    pub(crate) async fn renew_leases(self: Arc<Self>, source: Arc<dyn LegSource>, lease: Duration) {
        let pause = lease / 3;
        loop {
            self.wait_for_legs().await;
            tokio::time::sleep(pause).await;
            if self.count_legs() > 0 {
                // The next round repeats a failed renewal; a lease that ends until then is lost.
                let _ = self.renew_all(&*source, lease).await;
            }
        }
    }

    async fn renew_all(&self, source: &dyn LegSource, lease: Duration) -> Result<(), EngineError> {
        let begun = Instant::now();
        let leg_of = |(run, held): (&RunId, &Held)| LegId { run: run.clone(), token: held.lease.token() };
        let legs: Vec<LegId> = self.lock().iter().map(leg_of).collect();
        let renewed = source.renew_leases(legs, lease).await?;
        let mut held = self.lock();
        for (LegId { run, token }, renewal) in renewed {
            let Some(held) = held.get_mut(&run).filter(|held| held.lease.token() == token) else { continue };
            match renewal {
                Renewal::Lost => held.lease.lost().cancel(),
                Renewal::Held => held.until = begun + lease,
                Renewal::Cancelled => {
                    held.until = begun + lease;
                    held.lease.cancelled().cancel();
                }
            }
        }
        Ok(())
    }

    /// Signals to legs that their leases ended, even if the file cannot be read. Never returns.
    pub(crate) async fn expire_leases(self: Arc<Self>, lease: Duration) {
        let pause = (lease / 10).max(Duration::from_millis(20));
        loop {
            self.wait_for_legs().await;
            tokio::time::sleep(pause).await;
            let now = Instant::now();
            self.lock().values().filter(|held| held.until <= now).for_each(|held| held.lease.lost().cancel());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts how often a task is polled within a time.
    async fn count_polls(task: impl Future<Output = ()>, time: Duration) -> usize {
        let (polls, mut task) = (AtomicUsize::new(0), pin!(task));
        let counted = poll_fn(|context| {
            polls.fetch_add(1, Ordering::Relaxed);
            task.as_mut().poll(context)
        });
        // A timer of the task itself would be counted; that of the limit is polled apart from it.
        tokio::select! {
            () = counted => {}
            () = tokio::time::sleep(time) => {}
        }
        polls.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_worker_has_no_timers_for_leases() {
        let lease = Duration::from_secs(10);
        let keeper = Arc::new(Keeper::default());
        // The end of the limit polls the task once more.
        let idle = count_polls(keeper.clone().expire_leases(lease), Duration::from_secs(600)).await;
        assert!(idle <= 2, "{idle} polls in ten minutes without a leg");
        keeper.add_lease("r_1".into(), Lease::new(1), Instant::now() + lease);
        let busy = count_polls(keeper.clone().expire_leases(lease), Duration::from_secs(60)).await;
        assert!(busy >= 30, "{busy} polls in a minute with a leg");
    }

    #[tokio::test(start_paused = true)]
    async fn a_leg_that_comes_later_is_told_of_the_end_of_its_lease() {
        let keeper = Arc::new(Keeper::default());
        let task = tokio::spawn(keeper.clone().expire_leases(Duration::from_secs(10)));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let lease = Lease::new(1);
        keeper.add_lease("r_1".into(), lease.clone(), Instant::now() + Duration::from_secs(10));
        lease.lost().cancelled().await;
        // A leg whose run this worker takes again is told at once.
        let (second, third) = (Lease::new(2), Lease::new(3));
        for lease in [&second, &third] {
            keeper.add_lease("r_1".into(), lease.clone(), Instant::now() + Duration::from_secs(10));
        }
        assert!(second.lost().is_cancelled() && !third.lost().is_cancelled());
        task.abort();
    }
}
