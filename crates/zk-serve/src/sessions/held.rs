use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zk_core::model::{EntryId, SessionId};
use zk_core::service::OpenSession;

/// Most sessions that clients have open at once.
const MAX_HELD: usize = 1_024;

/// Session that a client has open.
pub(super) struct Held {
    pub(super) open: Arc<dyn OpenSession>,
    /// Process id of the client.
    pub(super) pid: u32,
    until: Mutex<Instant>,
    /// Last append, which is not stored again when it is sent again.
    pub(super) last: tokio::sync::Mutex<Option<(String, Vec<EntryId>)>>,
}

/// Sessions that clients have open, by the names of their leases.
pub(super) struct HeldSessions {
    lease: Duration,
    all: Mutex<HashMap<String, Arc<Held>>>,
}

impl HeldSessions {
    pub(super) fn new(lease: Duration) -> Self {
        Self { lease, all: Mutex::default() }
    }

    pub(super) fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds an open session; false if there are too many.
    pub(super) fn add(&self, handle: String, open: Arc<dyn OpenSession>, pid: u32) -> bool {
        let mut all = self.lock_all();
        if all.len() >= MAX_HELD {
            return false;
        }
        let until = Mutex::new(Instant::now() + self.lease);
        all.insert(handle, Arc::new(Held { open, pid, until, last: tokio::sync::Mutex::default() }));
        true
    }

    /// Extends a lease, and returns its session.
    pub(super) fn renew(&self, handle: &str) -> Option<Arc<Held>> {
        let held = self.lock_all().get(handle).cloned()?;
        let mut until = held.until.lock().unwrap_or_else(PoisonError::into_inner);
        if *until < Instant::now() {
            return None;
        }
        *until = Instant::now() + self.lease;
        drop(until);
        Some(held)
    }

    pub(super) fn remove(&self, handle: &str) -> Option<Arc<Held>> {
        self.lock_all().remove(handle)
    }

    /// Process of the client that has a session open.
    pub(super) fn pid_of(&self, id: &SessionId) -> Option<u32> {
        self.lock_all().values().find(|held| held.open.id() == id).map(|held| held.pid)
    }

    /// Closes the sessions whose leases have ended.
    pub(super) async fn end_leases(&self) {
        let now = Instant::now();
        let is_over = |held: &Arc<Held>| *held.until.lock().unwrap_or_else(PoisonError::into_inner) < now;
        let ended: Vec<Arc<Held>> =
            self.lock_all().extract_if(|_, held| is_over(held)).map(|(_, held)| held).collect();
        close(ended).await;
    }

    pub(super) async fn close_all(&self) {
        let all: Vec<Arc<Held>> = self.lock_all().drain().map(|(_, held)| held).collect();
        close(all).await;
    }

    fn lock_all(&self) -> MutexGuard<'_, HashMap<String, Arc<Held>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn close(all: Vec<Arc<Held>>) {
    for held in all {
        // Every append was acknowledged by the store itself.
        let _ = held.open.close().await;
    }
}
