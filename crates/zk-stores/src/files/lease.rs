//! The right to write a session: a lock of the map, or a lease.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use zk_core::model::SessionId;
use zk_core::service::{Lock, StoreError};

use super::layout::{Keys, SessionKey};
use super::map::{KeyValue, MapLock, Saved};
use super::{Own, lock};
use crate::shared::now_ms;

/// Attempts to create the next lease while other processes do so too.
const LEASE_ATTEMPTS: usize = 3;

/// Content of a lease. The lease with the greatest token counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Lease {
    pid: u32,
    /// End of the lease in milliseconds since 1970; 0 once it is given back.
    until_ms: u64,
}

pub(super) struct Leases {
    map: Arc<dyn KeyValue>,
    time: Duration,
}

/// Right to write a session, held until this value is dropped.
pub(super) struct Hold {
    kind: Kind,
    _own: Own,
}

enum Kind {
    Lock(#[expect(dead_code, reason = "it is held, not read")] Box<dyn Any + Send + Sync>),
    Lease(Arc<Held>),
    /// No lock and no lease: by its contract, only one process uses the map.
    Process,
}

/// Lease of this process.
struct Held {
    map: Arc<dyn KeyValue>,
    session: SessionKey,
    id: SessionId,
    token: u64,
    time: Duration,
    valid_until: Mutex<Instant>,
    is_over: AtomicBool,
}

impl Leases {
    pub(super) fn new(map: Arc<dyn KeyValue>, time: Duration) -> Self {
        Self { map, time }
    }

    pub(super) async fn take_hold(&self, id: &SessionId, keys: &Keys, own: Own) -> Result<Hold, StoreError> {
        match self.map.lock(&keys.session.lock_key()).await.map_err(StoreError::from)? {
            MapLock::Held(held) => return Ok(Hold { kind: Kind::Lock(held), _own: own }),
            MapLock::Busy { pid } => return Err(StoreError::InUse { id: id.clone(), pid }),
            MapLock::Unsupported => {}
        }
        let mut keys = keys.clone();
        for _ in 0..LEASE_ATTEMPTS {
            let token = keys.leases.last().copied().unwrap_or_default();
            if let Some(pid) = self.lease_pid(&keys, token).await? {
                return Err(StoreError::InUse { id: id.clone(), pid });
            }
            let held = Held {
                map: self.map.clone(),
                session: keys.session.clone(),
                id: id.clone(),
                token: token + 1,
                time: self.time,
                valid_until: Mutex::new(Instant::now() + self.time),
                is_over: AtomicBool::new(false),
            };
            let lease = held.renewed_lease()?;
            match self
                .map
                .create(&keys.session.lease_key(held.token), lease)
                .await
                .map_err(StoreError::from)?
            {
                Saved::Unsupported => return Ok(Hold { kind: Kind::Process, _own: own }),
                Saved::Yes => {
                    for old in &keys.leases {
                        // Only the lease with the greatest token counts, so an old one that stays is harmless.
                        let _ = self.map.delete(&keys.session.lease_key(*old)).await;
                    }
                    let held = Arc::new(held);
                    tokio::spawn(renew(Arc::downgrade(&held), self.time / 3));
                    return Ok(Hold { kind: Kind::Lease(held), _own: own });
                }
                Saved::Exists => {
                    let names = self.map.list(&keys.session.prefix()).await.map_err(StoreError::from)?;
                    keys = Keys::of(keys.session, names);
                }
            }
        }
        Err(StoreError::InUse { id: id.clone(), pid: 0 })
    }

    /// Process that has the session open, by lock or lease.
    pub(super) async fn holder(&self, keys: &Keys) -> Result<Option<Lock>, StoreError> {
        if let Some(pid) = self.map.holder(&keys.session.lock_key()).await.map_err(StoreError::from)? {
            return Ok(Some(Lock { pid }));
        }
        let token = keys.leases.last().copied().unwrap_or_default();
        Ok(self.lease_pid(keys, token).await?.map(|pid| Lock { pid }))
    }

    /// Id of the process that has the lease with this token, unless the lease has ended.
    async fn lease_pid(&self, keys: &Keys, token: u64) -> Result<Option<u32>, StoreError> {
        if token == 0 {
            return Ok(None);
        }
        let key = keys.session.lease_key(token);
        let Some(bytes) = self.map.get(&key).await.map_err(StoreError::from)? else { return Ok(None) };
        // An unreadable lease was cut off while it was written, by a process that never had it.
        let lease: Option<Lease> = serde_json::from_slice(&bytes).ok();
        Ok(lease.filter(|lease| lease.until_ms > now_ms()).map(|lease| lease.pid))
    }
}

impl Hold {
    /// Whether appends must create their keys, since another process may write late.
    pub(super) fn is_lease(&self) -> bool {
        matches!(self.kind, Kind::Lease(_))
    }

    /// Checks that no other writer has taken the session.
    pub(super) async fn check(&self) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Lock(_) | Kind::Process => Ok(()),
            Kind::Lease(held) => held.check().await,
        }
    }

    /// Checks after a write that this process still had the right to write then.
    pub(super) async fn confirm(&self) -> Result<(), StoreError> {
        match &self.kind {
            Kind::Lock(_) | Kind::Process => Ok(()),
            Kind::Lease(held) => held.confirm().await,
        }
    }

    /// Gives the right back.
    pub(super) async fn release(self) {
        if let Kind::Lease(held) = &self.kind {
            held.release().await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let (Kind::Lease(held), Ok(runtime)) = (&self.kind, Handle::try_current())
            && !held.is_over.load(Ordering::Acquire)
        {
            let held = held.clone();
            runtime.spawn(async move { held.release().await });
        }
    }
}

impl Held {
    fn fenced_error(&self) -> StoreError {
        StoreError::Fenced { id: self.id.clone() }
    }

    fn renewed_lease(&self) -> Result<Vec<u8>, StoreError> {
        let time_ms = u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX);
        let lease = Lease { pid: std::process::id(), until_ms: now_ms().saturating_add(time_ms) };
        serde_json::to_vec(&lease).map_err(|error| StoreError::Failed(error.to_string()))
    }

    async fn check(&self) -> Result<(), StoreError> {
        if self.is_over.load(Ordering::Acquire) {
            return Err(self.fenced_error());
        }
        // Nobody takes a lease before its end.
        if Instant::now() < *lock(&self.valid_until) {
            return Ok(());
        }
        self.renew().await
    }

    /// Checks in the map that no other process has taken the session, whatever the clock says.
    async fn confirm(&self) -> Result<(), StoreError> {
        let names = self.map.list(&self.session.prefix()).await.map_err(StoreError::from)?;
        let keys = Keys::of(self.session.clone(), names);
        if self.is_over.load(Ordering::Acquire) || keys.leases.last() != Some(&self.token) {
            self.is_over.store(true, Ordering::Release);
            return Err(self.fenced_error());
        }
        Ok(())
    }

    /// Extends the lease, unless another process has taken the session.
    async fn renew(&self) -> Result<(), StoreError> {
        self.confirm().await?;
        let from = Instant::now();
        self.map
            .save(&self.session.lease_key(self.token), self.renewed_lease()?)
            .await
            .map_err(StoreError::from)?;
        // Another process may have taken the session just before.
        self.confirm().await?;
        *lock(&self.valid_until) = from + self.time;
        Ok(())
    }

    async fn release(&self) {
        if !self.is_over.swap(true, Ordering::AcqRel) {
            let lease = Lease { pid: std::process::id(), until_ms: 0 };
            // An unreleased lease ends by itself.
            let bytes = serde_json::to_vec(&lease).unwrap_or_default();
            let _ = self.map.save(&self.session.lease_key(self.token), bytes).await;
        }
    }
}

/// Renews a lease until it is given back or lost.
async fn renew(held: std::sync::Weak<Held>, pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(held) = held.upgrade() else { return };
        if held.is_over.load(Ordering::Acquire) {
            return;
        }
        // A failed renewal is tried again, and the next append checks.
        let _ = held.renew().await;
    }
}
