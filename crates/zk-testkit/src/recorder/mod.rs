//! Keeping what happened, and telling it.

mod transcript;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use zk_core::kernel::{AnyEvent, BoxError, Cx, Event, Plugin, Reach, Scope};

/// A plugin that keeps every event of an agent and of its sub-agents.
///
/// The recorder listens to everything, so events that are only built for listeners are built. Clones are the
/// same recorder.
///
/// ```
/// use zk_core::events::SystemBefore;
/// use zk_core::kernel::Bus;
/// use zk_testkit::Recorder;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let recorder = Recorder::new();
/// let bus = Bus::new();
/// bus.install(&recorder).unwrap();
/// bus.cx().emit(SystemBefore { system: "Be brief.".into() }).await.unwrap();
/// assert_eq!(recorder.transcript(), r#"system:before  system="Be brief.""#);
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    events: Mutex<Vec<Recorded>>,
    more: Notify,
}

/// One event as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Name of the event.
    pub name: &'static str,
    /// The agent it happened to.
    pub agent: Arc<str>,
    /// Depth of that agent in the tree; 0 for the root.
    pub depth: u32,
    /// Data of the event; a string that says why when it does not serialise.
    pub data: Value,
}

impl Recorder {
    /// A recorder that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All events so far.
    #[must_use]
    pub fn events(&self) -> Vec<Recorded> {
        self.seen().clone()
    }

    /// The names of all events so far.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.seen().iter().map(|event| event.name).collect()
    }

    /// The data of every `E` so far.
    #[must_use]
    pub fn of<E: Event>(&self) -> Vec<Value> {
        self.named(E::NAME)
    }

    /// The data of every event called `name` so far.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<Value> {
        self.seen().iter().filter(|event| event.name == name).map(|event| event.data.clone()).collect()
    }

    /// Waits until an event called `name` has been seen, also if that was before.
    pub async fn wait_for(&self, name: &str) {
        loop {
            let more = self.inner.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            if self.seen().iter().any(|event| event.name == name) {
                return;
            }
            more.await;
        }
    }

    /// Forgets what was seen.
    pub fn clear(&self) {
        self.seen().clear();
    }

    /// The run as a protocol: one line for each event, with what is telling about it.
    ///
    /// Nothing in it differs from one run to the next: ids become `#1`, `#2` … in the order they appear;
    /// times, durations and counters that every event repeats are left out; pieces of one stream are joined.
    #[must_use]
    pub fn transcript(&self) -> String {
        transcript::tell(&self.seen())
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Recorded>> {
        self.inner.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, event: &dyn AnyEvent, cx: &Cx) {
        let data = event.to_json().unwrap_or_else(|error| Value::String(format!("not JSON: {error}")));
        let origin = cx.origin();
        self.seen().push(Recorded {
            name: event.name(),
            agent: origin.agent.clone(),
            depth: origin.depth,
            data,
        });
        self.inner.more.notify_waiters();
    }
}

impl Plugin for Recorder {
    fn name(&self) -> &str {
        "recorder"
    }

    fn register(&self, scope: &Scope) -> Result<(), BoxError> {
        let recorder = self.clone();
        scope.observe_at(Reach::Descendants, move |event, cx| recorder.see(event, cx));
        Ok(())
    }
}
