//! Recorder of events, and its transcript.

mod transcript;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use zk_core::kernel::{AnyEvent, BoxError, Cx, Event, Plugin, Reach, Scope};

/// Plugin that records all events of an agent and its sub-agents.
///
/// The recorder listens to all events, so events that are only built for listeners are built, too. Clones
/// share the recording.
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

/// Recorded event.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Name of the event.
    pub name: &'static str,
    /// Id of the event's agent.
    pub agent: Arc<str>,
    /// Depth of that agent in the tree; 0 for the root.
    pub depth: u32,
    /// Data of the event; if it cannot be serialised, a string with the reason.
    pub data: Value,
}

impl Recorder {
    /// Empty recorder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All events so far.
    #[must_use]
    pub fn events(&self) -> Vec<Recorded> {
        self.recording().clone()
    }

    /// Names of all events so far.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.recording().iter().map(|event| event.name).collect()
    }

    /// Data of each `E` so far.
    #[must_use]
    pub fn of<E: Event>(&self) -> Vec<Value> {
        self.named(E::NAME)
    }

    /// Data of each event called `name` so far.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<Value> {
        self.recording().iter().filter(|event| event.name == name).map(|event| event.data.clone()).collect()
    }

    /// Waits for an event called `name`; returns at once if it was already recorded.
    pub async fn wait_for(&self, name: &str) {
        loop {
            let more = self.inner.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            if self.recording().iter().any(|event| event.name == name) {
                return;
            }
            more.await;
        }
    }

    /// Clears the recording.
    pub fn clear(&self) {
        self.recording().clear();
    }

    /// Readable transcript of a run: one line for each event, with its most important fields.
    ///
    /// The transcript is the same for each run: ids become `#1`, `#2` … in order of appearance; times,
    /// durations and repeated counters are left out; deltas of a stream are joined.
    #[must_use]
    pub fn transcript(&self) -> String {
        transcript::render_transcript(&self.recording())
    }

    fn recording(&self) -> MutexGuard<'_, Vec<Recorded>> {
        self.inner.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_event(&self, event: &dyn AnyEvent, cx: &Cx) {
        let data = event.to_json().unwrap_or_else(|error| Value::String(format!("not JSON: {error}")));
        let origin = cx.origin();
        self.recording().push(Recorded {
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
        scope.observe_at(Reach::Descendants, move |event, cx| recorder.record_event(event, cx));
        Ok(())
    }
}
