//! One limit for all requests that go the same way.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use zk_core::service::Provider;

/// The limits of a process, one for each endpoint and key: whoever gets a clone of it shares them.
///
/// ```
/// use std::sync::Arc;
///
/// use zk_providers::{Anthropic, AnthropicOptions, Limits, RetryPolicy, Retrying};
///
/// let limits = Limits::default();
/// let claude = || Anthropic::new(Anthropic::connection().key("sk-ant-…"), AnthropicOptions::default());
/// // Two values, one key: what the server refuses the one, the other does not ask for.
/// let first = Retrying::sharing(&limits, Arc::new(claude()?), RetryPolicy::default());
/// let second = Retrying::sharing(&limits, Arc::new(claude()?), RetryPolicy::default());
/// # let _ = (first, second);
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
#[derive(Clone, Default)]
pub struct Limits(Arc<Mutex<HashMap<String, Arc<Limit>>>>);

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").finish_non_exhaustive()
    }
}

impl Limits {
    /// The limit of `provider`, which is its own if it does not say whose quota it uses.
    pub(super) fn of(&self, provider: &dyn Provider) -> Arc<Limit> {
        let Some(key) = provider.quota_key() else { return Arc::default() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
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
}

/// A wait that is shorter needs no word.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// What the limit says to a request.
pub(super) enum Entry {
    /// Now; the probe is there if it tries first.
    Go(Option<Probe>),
    /// Not before this instant, which the caller does not know yet.
    Held(Instant),
}

/// The request that tries first.
pub(super) struct Probe {
    limit: Arc<Limit>,
}

impl Limit {
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

impl Probe {
    /// It got an answer: everybody may go.
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
