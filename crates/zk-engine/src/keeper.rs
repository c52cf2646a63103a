use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zk_core::model::RunId;
use zk_core::service::{EngineError, Lease};

use crate::clock::duration_ms;
use crate::local::LocalEngine;
use crate::rows;

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
    pub(crate) fn remove_lease(&self, run: &RunId, token: u64) {
        let mut held = self.lock();
        if held.get(run).is_some_and(|held| held.lease.token() == token) {
            held.remove(run);
        }
    }

    /// Returns the number of running legs.
    pub(crate) fn count_legs(&self) -> usize {
        self.lock().len()
    }

    /// Signals to legs that their runs are being cancelled.
    pub(crate) fn signal_cancel(&self, runs: &[(RunId, u64)]) {
        let held = self.lock();
        for (run, token) in runs {
            if let Some(held) = held.get(run).filter(|held| held.lease.token() == *token) {
                held.lease.cancelled().cancel();
            }
        }
    }

    /// Renews all leases periodically. Never returns.
    pub(crate) async fn renew_leases(self: Arc<Self>, engine: LocalEngine, lease: Duration) {
        let pause = lease / 3;
        loop {
            tokio::time::sleep(pause).await;
            if self.count_legs() > 0 {
                // The next round repeats a failed renewal; a lease that ends until then is lost.
                let _ = self.renew_all(&engine, lease).await;
            }
        }
    }

    async fn renew_all(&self, engine: &LocalEngine, lease: Duration) -> Result<(), EngineError> {
        let begun = Instant::now();
        let legs: Vec<(RunId, u64)> =
            self.lock().iter().map(|(run, held)| (run.clone(), held.lease.token())).collect();
        let length = duration_ms(lease);
        let renewed = engine
            .write_transaction("renew leases", move |conn| {
                let renew = |(run, token): (RunId, u64)| {
                    Ok((rows::renew_lease(conn, &run, token, length)?, run, token))
                };
                legs.into_iter().map(renew).collect::<rusqlite::Result<Vec<_>>>().map(Ok)
            })
            .await?;
        let mut held = self.lock();
        for (renewed, run, token) in renewed {
            let Some(held) = held.get_mut(&run).filter(|held| held.lease.token() == token) else { continue };
            match renewed {
                None => held.lease.lost().cancel(),
                Some(is_cancelled) => {
                    held.until = begun + lease;
                    if is_cancelled {
                        held.lease.cancelled().cancel();
                    }
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
