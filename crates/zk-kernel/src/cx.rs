use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Bus, Item, Origin};

/// Context of an event: its run with stop token, its turn, and the services.
///
/// The context is built per run, never per emit; clones share everything.
#[derive(Clone)]
pub struct Cx {
    bus: Bus,
    stop: CancellationToken,
    run: Arc<str>,
    turn: Arc<str>,
    /// Services behind one pointer, which keeps clones cheap.
    services: Option<Arc<RunServices>>,
}

/// Services of one run with their types. There are few, so a scan is faster than a hash map.
type RunServices = Vec<(TypeId, Arc<dyn Any + Send + Sync>)>;

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("origin", self.origin())
            .field("run", &self.run)
            .field("turn", &self.turn)
            .field("stopped", &self.is_stopped())
            .finish_non_exhaustive()
    }
}

impl Cx {
    pub(super) fn new(bus: Bus) -> Self {
        Self { bus, stop: CancellationToken::new(), run: Arc::from(""), turn: Arc::from(""), services: None }
    }

    /// Returns the bus that the events of this run are emitted on.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Returns the agent that emitted the event; its depth is above 0 for a sub-agent.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        self.bus.origin()
    }

    /// Returns the id of the run; empty outside of a run.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run
    }

    /// Returns the id of the turn; empty outside of a turn.
    #[must_use]
    pub fn turn_id(&self) -> &str {
        &self.turn
    }

    /// Returns the token that is cancelled to stop the run.
    #[must_use]
    pub fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Whether the run is being stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Looks up the service of type `T`: `cx.service::<dyn Ui>()`. A service of the run
    /// ([`Cx::with_service`]) takes precedence over those of the bus and its ancestors. Ask again instead of
    /// keeping the result, since a service can be replaced.
    #[must_use]
    pub fn service<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.run_service().or_else(|| self.bus.service())
    }

    fn run_service<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let wanted = TypeId::of::<T>();
        let (_, service) = self.services.as_ref()?.iter().find(|(of, _)| *of == wanted)?;
        service.downcast_ref::<Arc<T>>().cloned()
    }

    /// Looks up the registered item of type `T` by name.
    #[must_use]
    pub fn item<T: ?Sized + Send + Sync + 'static>(&self, name: &str) -> Option<Arc<T>> {
        self.bus.item(name)
    }

    /// Returns all registered items of type `T`, sorted by name.
    #[must_use]
    pub fn items<T: ?Sized + Send + Sync + 'static>(&self) -> Vec<Item<T>> {
        self.bus.items()
    }

    /// Returns a context for the run `run` with the stop token `stop`, without a turn and without services of
    /// a run.
    #[must_use]
    pub fn for_run(&self, run: impl Into<Arc<str>>, stop: CancellationToken) -> Self {
        Self { bus: self.bus.clone(), stop, run: run.into(), turn: Arc::from(""), services: None }
    }

    /// Returns a context with `service` as the run's own `T`, replacing an earlier one. The bus is unchanged:
    /// only this context, and contexts derived from it, have the service.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use zk_kernel::Bus;
    ///
    /// let cx = Bus::new().cx();
    /// let in_run = cx.with_service::<str>(Arc::from("budget: 3"));
    /// assert_eq!(in_run.for_turn("t1").service::<str>().as_deref(), Some("budget: 3"));
    /// assert_eq!(cx.service::<str>(), None);
    /// ```
    #[must_use]
    pub fn with_service<T: ?Sized + Send + Sync + 'static>(&self, service: Arc<T>) -> Self {
        let of = TypeId::of::<T>();
        let kept = self.services.iter().flat_map(|all| all.iter()).filter(|(other, _)| *other != of);
        let mut services: RunServices = kept.cloned().collect();
        services.push((of, Arc::new(service)));
        Self { services: Some(Arc::new(services)), ..self.clone() }
    }

    /// Returns a context for the turn `turn`.
    #[must_use]
    pub fn for_turn(&self, turn: impl Into<Arc<str>>) -> Self {
        Self { turn: turn.into(), ..self.clone() }
    }

    /// Returns a context with another stop token, normally a child of its own.
    #[must_use]
    pub fn with_stop(&self, stop: CancellationToken) -> Self {
        Self { stop, ..self.clone() }
    }
}
