//! One limit for all requests that go the same way.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use zk_core::service::Provider;

/// The limits of a process, one for each endpoint and key: whoever gets a clone of it shares them.
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
    /// Limits of providers that do not say whose quota they use.
    own: Vec<Weak<Limit>>,
}

impl fmt::Debug for RateLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimits").finish_non_exhaustive()
    }
}

impl RateLimits {
    /// The limit of `provider`, which is its own if it does not say whose quota it uses.
    pub(super) fn of(&self, provider: &dyn Provider) -> Arc<Limit> {
        let mut known = self.known();
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

    /// Ends the waits of all requests that wait to be sent again, for a person who does not want to wait: of each
    /// endpoint and key one is sent now, and the others once that one is answered. Gives whether any waited.
    pub fn skip_waits(&self) -> bool {
        let all: Vec<Arc<Limit>> = {
            let known = self.known();
            known.shared.values().cloned().chain(known.own.iter().filter_map(Weak::upgrade)).collect()
        };
        all.iter().filter(|limit| limit.skip()).count() > 0
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closed by a rate-limit error until its wait is over; then one request tries while the others still wait.
#[derive(Default)]
pub(super) struct Limit {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    closed_until: Option<Instant>,
    probing: bool,
    /// Number of requests that wait and were told so.
    waiting: usize,
    /// Number of times that the waits were skipped.
    skips: u64,
    /// Whether anything there ever answered.
    was_reached: bool,
}

/// A wait that is shorter needs no word.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// Answer of the limit to a request.
pub(super) enum Entry {
    /// Now; the probe is there if it tries first.
    Go(Option<Probe>),
    /// The request waits until this instant, which the caller does not know yet.
    Held(Instant),
}

/// The request that tries first.
pub(super) struct Probe {
    limit: Arc<Limit>,
}

/// A request that waits and was told so.
pub(super) struct Waiting {
    limit: Arc<Limit>,
    /// Number of times that waits had been skipped when it began.
    skips: u64,
}

impl Limit {
    /// A wait begins.
    pub(super) fn begin_wait(self: &Arc<Self>) -> Waiting {
        let mut state = self.state();
        state.waiting += 1;
        Waiting { skips: state.skips, limit: self.clone() }
    }

    /// Ends all waits: one request may be sent, the others when that one has passed. Gives whether any waited.
    pub(super) fn skip(&self) -> bool {
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

    /// Waits until a request may be sent, or has to wait longer than until `known`.
    pub(super) async fn enter(self: &Arc<Self>, known: Option<Instant>) -> Entry {
        loop {
            // Registered before the look, so that no change is missed between the two.
            let changed = self.changed.notified();
            let closed_until = {
                let mut state = self.state();
                let Some(until) = state.closed_until else { return Entry::Go(None) };
                let now = Instant::now();
                if until <= now && !state.probing {
                    state.probing = true;
                    return Entry::Go(Some(Probe { limit: self.clone() }));
                }
                if until.saturating_duration_since(known.unwrap_or(now).max(now)) >= WORTH_TELLING {
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

    /// Something answered, be it with an error.
    pub(super) fn note_reached(&self) {
        self.state().was_reached = true;
    }

    pub(super) fn was_reached(&self) -> bool {
        self.state().was_reached
    }

    /// Nothing is sent before `until`.
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
    pub(super) async fn end(&self, until: Instant) {
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
    /// Opens the limit for everybody, since the probe got an answer.
    pub(super) fn passed(self) {
        self.limit.state().closed_until = None;
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.limit.state().probing = false;
        self.limit.changed.notify_waiters();
    }
}
