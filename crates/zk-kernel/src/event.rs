use std::any::Any;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::{Mode, OnError, Reach};

/// Point in an agent's life that plugins can take part in.
///
/// The event carries its own result type and its own way to combine answers, so there is no central table
/// to keep in step and an event without semantics does not compile.
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
    /// The stable name, `phase:what`, as logs, the wire and the reference show it.
    const NAME: &'static str;
    /// Effect of a failing handler on the emit. Gates and persistence say [`OnError::Throw`].
    const ON_ERROR: OnError = OnError::Inherit;
    /// Whether a stopped run still announces this event. The closing events of a run say `false`.
    const CANCELLABLE: bool = true;
    /// Time limit of one handler unless its registration sets another; `None` is without limit.
    const TIME_LIMIT: Option<Duration> = None;
    /// Reach of a handler unless its registration sets another. Gates and events that mask results say
    /// [`Reach::Descendants`]: a guard of an agent then guards its sub-agents too.
    const REACH: Reach = Reach::Own;
    /// Answer of one handler.
    type Reply: Send + 'static;
    /// Rule that combines the answers: one of the modes of this module, or your own.
    type Mode: Mode<Self>;
}

/// Result of emitting an `E`.
pub type Outcome<E> = <<E as Event>::Mode as Mode<E>>::Output;

/// Stamp of an observed event: its number among those of an agent and its descendants, and when it was
/// emitted. Its name is [`AnyEvent::name`], and [`Cx::origin`](super::Cx::origin) is the agent that emitted
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventStamp {
    /// Grows with each event, and is the same for all who observe it. Of two that are emitted at once, an observer may see
    /// the later one first.
    pub number: u64,
    /// The time of this machine, which may be set back.
    pub at: SystemTime,
}

/// Any event, as observers see it.
pub trait AnyEvent: Send + Sync {
    /// The event's [`Event::NAME`].
    fn name(&self) -> &'static str;
    /// For a downcast to the event's own type.
    fn as_any(&self) -> &dyn Any;
    /// Appends the event's data as one JSON value.
    ///
    /// # Errors
    /// When a field does not serialise.
    fn write_json(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error>;
    /// The event's data as a JSON value.
    ///
    /// # Errors
    /// When a field does not serialise.
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
    /// The event as `E`, if that is what it is.
    #[must_use]
    pub fn downcast<E: Event>(&self) -> Option<&E> {
        self.as_any().downcast_ref()
    }
}
