//! Rate limits shared by all requests that use the same quota.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use zk_core::service::Provider;

/// Shared rate limits of a process, one for each endpoint and key; clones share them.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_agent::{RateLimits, RetryPolicy, Retrying};
/// use zk_testkit::{Script, ScriptedProvider};
///
/// let limits = RateLimits::default();
/// let claude = || Arc::new(ScriptedProvider::new(Script::new()));
/// // Two values, one key: what the server refuses the one, the other does not ask for.
/// let first = Retrying::sharing(&limits, claude(), RetryPolicy::default());
/// let second = Retrying::sharing(&limits, claude(), RetryPolicy::default());
/// # let _ = (first, second);
/// ```
#[derive(Clone, Default)]
pub struct RateLimits(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    shared: HashMap<String, Arc<Limit>>,
    /// Limits of providers without a quota key, which share them with no other.
    own: Vec<Weak<Limit>>,
}

impl fmt::Debug for RateLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimits").finish_non_exhaustive()
    }
}

impl RateLimits {
    /// Returns the limit of `provider`; a provider without a quota key has one of its own.
    pub(super) fn of(&self, provider: &dyn Provider) -> Arc<Limit> {
        let mut known = self.lock_known();
        match provider.quota_key() {
            Some(key) => known.shared.entry(key).or_default().clone(),
            None => {
                let limit = Arc::default();
                known.own.retain(|limit| limit.strong_count() > 0);
                known.own.push(Arc::downgrade(&limit));
                limit
            }
        }
    }

    /// Skips all waits for retries on behalf of a person: for each endpoint and key, one request is sent now,
    /// and the others after its answer. Returns whether any request was waiting.
    pub fn skip_waits(&self) -> bool {
        let all: Vec<Arc<Limit>> = {
            let known = self.lock_known();
            known.shared.values().cloned().chain(known.own.iter().filter_map(Weak::upgrade)).collect()
        };
        all.iter().filter(|limit| limit.skip_wait()).count() > 0
    }

    fn lock_known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rate limit of one quota. An error closes it for a time; then one request probes while the others still
/// wait.
#[derive(Default)]
pub(super) struct Limit {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    closed_until: Option<Instant>,
    probing: bool,
    /// Number of requests whose callers were informed of the wait.
    waiting: usize,
    /// Number of times that waits were skipped.
    skips: u64,
    /// Whether the endpoint has ever answered.
    was_reached: bool,
}

/// Minimum wait that is announced to the caller.
const MIN_ANNOUNCED_WAIT: Duration = Duration::from_secs(1);

/// Decision of the limit about a request that is ready to be sent.
pub(super) enum Entry {
    /// The request may be sent; with a probe if it is the first one after a wait.
    Go(Option<Probe>),
    /// The request has to wait until this instant, which its caller has not been told yet.
    Held(Instant),
}

/// Guard of the only request that probes whether the limit is open again.
pub(super) struct Probe {
    limit: Arc<Limit>,
}

/// Guard of a request that waits, and whose caller was told so.
pub(super) struct Waiting {
    limit: Arc<Limit>,
    /// Value of the limit's `skips` when the wait began.
    skips: u64,
}

impl Limit {
    /// Registers a request that begins to wait.
    pub(super) fn begin_wait(self: &Arc<Self>) -> Waiting {
        let mut state = self.state();
        state.waiting += 1;
        Waiting { skips: state.skips, limit: self.clone() }
    }

    /// Skips the wait: one request may be sent, and the others after its answer. Returns whether any request
    /// was waiting.
    pub(super) fn skip_wait(&self) -> bool {
        let mut state = self.state();
        if state.waiting == 0 {
            return false;
        }
        state.closed_until = Some(Instant::now());
        state.skips += 1;
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// Waits until a request may be sent. Returns early if the wait became longer than `known`, the end that
    /// the caller was told.
    pub(super) async fn wait_to_send(self: &Arc<Self>, known: Option<Instant>) -> Entry {
        loop {
            // Subscribed before the check, so that no change after the check is missed.
            let changed = self.changed.notified();
            let closed_until = {
                let mut state = self.state();
                let Some(until) = state.closed_until else { return Entry::Go(None) };
                let now = Instant::now();
                if until <= now && !state.probing {
                    state.probing = true;
                    return Entry::Go(Some(Probe { limit: self.clone() }));
                }
                if until.saturating_duration_since(known.unwrap_or(now).max(now)) >= MIN_ANNOUNCED_WAIT {
                    return Entry::Held(until);
                }
                (!state.probing).then_some(until)
            };
            match closed_until {
                Some(until) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(until) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Records that the endpoint answered, even with an error.
    pub(super) fn record_reached(&self) {
        self.state().was_reached = true;
    }

    pub(super) fn was_reached(&self) -> bool {
        self.state().was_reached
    }

    /// Closes the limit until `until`.
    pub(super) fn hold_until(&self, until: Instant) {
        let mut state = self.state();
        state.closed_until = state.closed_until.max(Some(until));
        drop(state);
        self.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Waits until `until`, or until waits are skipped.
    pub(super) async fn wait_until(&self, until: Instant) {
        loop {
            let changed = self.limit.changed.notified();
            if self.limit.state().skips != self.skips {
                return;
            }
            tokio::select! {
                () = changed => {}
                () = sleep_until(until) => return,
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.limit.state().waiting -= 1;
    }
}

impl Probe {
    /// Opens the limit for all requests, because the probe was answered.
    pub(super) fn open_limit(self) {
        self.limit.state().closed_until = None;
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.limit.state().probing = false;
        self.limit.changed.notify_waiters();
    }
}
