use std::any::Any;
use std::time::{Duration, SystemTime};

use serde_core::Serialize;

use super::{Mode, OnError, Reach};

/// An event in an agent's life that plugins can observe or answer.
///
/// The event type defines the type of its answers and the mode that combines them. So there is no central
/// table to maintain, and an event without defined semantics does not compile.
///
/// ```
/// use serde::Serialize;
/// use zk_kernel::{Bus, Cx, Event, First};
///
/// /// Asked when a name has to be chosen.
/// #[derive(Debug, Serialize)]
/// struct PickName {
///     topic: String,
/// }
///
/// impl Event for PickName {
///     const NAME: &'static str = "name:pick";
///     type Reply = String;
///     type Mode = First;
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let bus = Bus::new();
/// let scope = bus.scope("namer");
/// scope.on_sync(|ev: &PickName, _: &Cx| Some(format!("{}-1", ev.topic)));
/// let name = bus.cx().emit(PickName { topic: "run".into() }).await.unwrap();
/// assert_eq!(name.as_deref(), Some("run-1"));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a zk event",
    label = "this type cannot be emitted or handled",
    note = "implement `Event` for it: a NAME, a Reply type and a Mode (`Notify` if nobody may answer)"
)]
pub trait Event: Serialize + Send + Sync + Sized + 'static {
    /// Stable name, `phase:what`, in logs, in JSON and in the reference.
    const NAME: &'static str;
    /// Effect of a failing handler on the emission. Gates and persistence use [`OnError::Throw`].
    const ON_ERROR: OnError = OnError::Inherit;
    /// Whether stopping the run cancels the emission. Closing events of a run set `false`, so that they are
    /// always announced.
    const CANCELLABLE: bool = true;
    /// Default time limit of one handler; `None` for no limit.
    const TIME_LIMIT: Option<Duration> = None;
    /// Default reach of a handler. Gates and events that mask results use [`Reach::Descendants`]: the guard
    /// of an agent guards its sub-agents too.
    const REACH: Reach = Reach::Own;
    /// Answer of one handler.
    type Reply: Send + 'static;
    /// Rule that combines the answers: one of this module's modes, or a custom one.
    type Mode: Mode<Self>;
}

/// Result type of emitting an `E`.
pub type Outcome<E> = <<E as Event>::Mode as Mode<E>>::Output;

/// Number and time of an observed event. Numbers are unique among the events of an agent and its descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventStamp {
    /// Number that grows with each event, equal for all observers. Of two concurrent events, an observer may
    /// see the later one first.
    pub number: u64,
    /// Wall-clock time of the emission; may jump backwards.
    pub at: SystemTime,
}

/// An event of any type, for observers.
pub trait AnyEvent: Send + Sync {
    /// Returns the event's [`Event::NAME`].
    fn name(&self) -> &'static str;
    /// Returns the event for a downcast to its own type.
    fn as_any(&self) -> &dyn Any;
    /// Appends the event's data to `out` as one JSON value.
    ///
    /// # Errors
    /// When a field cannot be serialised.
    fn write_json(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error>;
    /// Returns the event's data as a JSON value.
    ///
    /// # Errors
    /// When a field cannot be serialised.
    fn to_json(&self) -> Result<serde_json::Value, serde_json::Error>;
}

impl<E: Event> AnyEvent for E {
    fn name(&self) -> &'static str {
        E::NAME
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn write_json(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        serde_json::to_writer(out, self)
    }

    fn to_json(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::to_value(self)
    }
}

impl dyn AnyEvent + '_ {
    /// Returns the event as an `E`, if it is one.
    #[must_use]
    pub fn downcast<E: Event>(&self) -> Option<&E> {
        self.as_any().downcast_ref()
    }
}
