use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zk_core::model::RunId;
use zk_core::service::{EngineError, Lease};

use crate::source::{LegId, LegSource, Renewal};

/// Leases of the legs that run in this process.
#[derive(Default)]
pub(crate) struct Keeper {
    held: Mutex<HashMap<RunId, Held>>,
}

struct Held {
    lease: Lease,
    until: Instant,
}

impl Keeper {
    /// Adds a lease that holds until `until`.
    pub(crate) fn add_lease(&self, run: RunId, lease: Lease, until: Instant) {
        self.lock().insert(run, Held { lease, until });
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
            tokio::time::sleep(pause).await;
            let now = Instant::now();
            self.lock().values().filter(|held| held.until <= now).for_each(|held| held.lease.lost().cancel());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
