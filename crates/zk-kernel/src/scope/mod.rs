mod detached;
mod guard;
mod hook;
mod inner;
mod items;
mod lifecycle;
mod task;
mod tombstones;

use std::any::TypeId;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

pub(super) use detached::DetachedScopes;
pub use guard::ScopeGuard;
pub use hook::Hook;
pub(super) use inner::ScopeInner;
pub(super) use task::Task;
pub use tombstones::Tombstones;

use super::{
    AnyEvent, AsyncHook, AsyncHookWith, Bus, Cause, Cx, Event, EventStamp, Handler, HookError, IntoReply,
    OnError, Reach, Source, Stage,
};
use crate::emit::erase::Runner;
use crate::emit::table::{HandlerEntry, Identity, Observe, Observer};

/// Registrations of one plugin: each carries the scope's [`Source`] and is removed when the scope closes.
///
/// A scope is a handle; clones are the same scope, and dropping a handle removes nothing. It is closed by
/// [`Scope::close`], with its bus, or by a [guard](Scope::close_on_drop) if it must not outlive a run.
#[derive(Clone)]
pub struct Scope {
    inner: Arc<ScopeInner>,
}

/// Stage, reach and time limit of a handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookOptions {
    /// Stage among the handlers of the event.
    pub stage: Stage,
    /// Reach of the handler; `None` for the event's [`Event::REACH`].
    pub reach: Option<Reach>,
    /// Time limit of one call; `None` for the event's own. Ends a handler that awaits; a handler that blocks
    /// its thread cannot be interrupted.
    pub time_limit: Option<Duration>,
}

impl From<Stage> for HookOptions {
    fn from(stage: Stage) -> Self {
        Self { stage, ..Self::default() }
    }
}

impl From<Reach> for HookOptions {
    fn from(reach: Reach) -> Self {
        Self { reach: Some(reach), ..Self::default() }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("source", &self.inner.source)
            .field("tasks", &self.inner.task_count())
            .finish_non_exhaustive()
    }
}

impl Scope {
    pub(super) fn from_inner(inner: Arc<ScopeInner>) -> Self {
        Self { inner }
    }

    /// Returns the source that registers through this scope.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.inner.source
    }

    /// Returns the bus of this scope, unless it was dropped.
    #[must_use]
    pub fn bus(&self) -> Option<Bus> {
        self.inner.bus.upgrade().map(|inner| Bus { inner })
    }

    /// Registers a handler struct. Registering the same `Arc` twice is one registration.
    #[track_caller]
    pub fn handle<E: Event, H: Handler<E>>(&self, handler: Arc<H>) -> Hook {
        self.handle_at::<E, H>(HookOptions::default(), handler)
    }

    /// Variant of [`Scope::handle`] with a stage, a reach or a time limit.
    #[track_caller]
    pub fn handle_at<E: Event, H: Handler<E>>(&self, at: impl Into<HookOptions>, handler: Arc<H>) -> Hook {
        let identity = Identity::of_arc(&handler);
        self.add::<E>(at.into(), identity, Runner::of_struct(handler))
    }

    /// Registers a closure that answers synchronously; calling it does not allocate. A function registered
    /// twice is one registration; closures with captures are always different.
    #[track_caller]
    pub fn on_sync<E, R>(&self, f: impl Fn(&E, &Cx) -> R + Send + Sync + 'static) -> Hook
    where
        E: Event,
        R: IntoReply<E> + 'static,
    {
        self.on_sync_at(HookOptions::default(), f)
    }

    /// Variant of [`Scope::on_sync`] with a stage, a reach or a time limit.
    #[track_caller]
    pub fn on_sync_at<E, R, F>(&self, at: impl Into<HookOptions>, f: F) -> Hook
    where
        E: Event,
        R: IntoReply<E> + 'static,
        F: Fn(&E, &Cx) -> R + Send + Sync + 'static,
    {
        self.add::<E>(at.into(), Identity::of_fn::<F>(), Runner::of_sync(f))
    }

    /// Registers an `async fn` or an async closure without captures. Each call allocates one box.
    ///
    /// A closure that uses `?` has to name its error type, since any error type is accepted (otherwise the
    /// compiler asks for a type annotation, E0282): end it with `Ok::<_, BoxError>(…)`, or write an `async
    /// fn`.
    ///
    /// ```
    /// use zk_kernel::{BoxError, Bus, Cx, Event, First};
    ///
    /// #[derive(serde::Serialize)]
    /// struct PickReviewer {
    ///     path: String,
    /// }
    ///
    /// impl Event for PickReviewer {
    ///     const NAME: &'static str = "reviewer:pick";
    ///     type Reply = String;
    ///     type Mode = First;
    /// }
    ///
    /// async fn owner_of(path: &str) -> Result<Option<String>, std::io::Error> {
    ///     Ok(path.starts_with("docs/").then(|| "ada".to_owned()))
    /// }
    ///
    /// let bus = Bus::new();
    /// bus.scope("owners").on_async(async |pick: &PickReviewer, _: &Cx| {
    ///     Ok::<_, BoxError>(owner_of(&pick.path).await?)
    /// });
    /// ```
    #[track_caller]
    pub fn on_async<E: Event>(&self, f: impl for<'a> AsyncHook<'a, E>) -> Hook {
        self.on_async_at(HookOptions::default(), f)
    }

    /// Variant of [`Scope::on_async`] with a stage, a reach or a time limit.
    #[track_caller]
    pub fn on_async_at<E, F>(&self, at: impl Into<HookOptions>, f: F) -> Hook
    where
        E: Event,
        F: for<'a> AsyncHook<'a, E>,
    {
        self.add::<E>(at.into(), Identity::of_fn::<F>(), Runner::of_async(f))
    }

    /// Variant of [`Scope::on_async`] with state that is passed to each call.
    #[track_caller]
    pub fn on_async_with<E, S, F>(&self, state: S, f: F) -> Hook
    where
        E: Event,
        S: Send + Sync + 'static,
        F: for<'a> AsyncHookWith<'a, S, E>,
    {
        self.on_async_with_at(HookOptions::default(), state, f)
    }

    /// Variant of [`Scope::on_async_with`] with a stage, a reach or a time limit.
    #[track_caller]
    pub fn on_async_with_at<E, S, F>(&self, at: impl Into<HookOptions>, state: S, f: F) -> Hook
    where
        E: Event,
        S: Send + Sync + 'static,
        F: for<'a> AsyncHookWith<'a, S, E>,
    {
        self.add::<E>(at.into(), Identity::Unique, Runner::of_async_with(state, f))
    }

    /// Registers an observer: called once for every event, as emitted, before its handlers. It cannot answer.
    #[track_caller]
    pub fn observe(&self, f: impl Fn(&dyn AnyEvent, &Cx) + Send + Sync + 'static) -> Hook {
        self.observe_at(Reach::Own, f)
    }

    /// Variant of [`Scope::observe`] with a reach, to observe the events of descendants too.
    #[track_caller]
    pub fn observe_at<F>(&self, reach: Reach, f: F) -> Hook
    where
        F: Fn(&dyn AnyEvent, &Cx) + Send + Sync + 'static,
    {
        self.add_observer(reach, Identity::of_fn::<F>(), Observe::Plain(Arc::new(f)))
    }

    /// Variant of [`Scope::observe_at`] with the number and the time of each event. The clock is read at most
    /// once per event, and only if such an observer receives it.
    #[track_caller]
    pub fn observe_stamped<F>(&self, reach: Reach, f: F) -> Hook
    where
        F: Fn(&dyn AnyEvent, EventStamp, &Cx) + Send + Sync + 'static,
    {
        self.add_observer(reach, Identity::of_fn::<F>(), Observe::Stamped(Arc::new(f)))
    }

    #[track_caller]
    fn add_observer(&self, reach: Reach, identity: Identity, run: Observe) -> Hook {
        let location = Location::caller();
        let Some(bus) = self.open_bus(location) else { return self.hook(None) };
        let observer = Observer {
            id: bus.next_id(),
            scope: self.inner.id,
            reach,
            source: self.inner.source.clone(),
            location,
            identity,
            run,
        };
        let mut id = None;
        bus.inner.write_table(|table| id = Some(table.add_observer(observer)));
        self.inner.undo_if_closed();
        self.hook(id)
    }

    #[track_caller]
    fn add<E: Event>(&self, at: HookOptions, identity: Identity, run: Runner<E>) -> Hook {
        let location = Location::caller();
        let Some(bus) = self.open_bus(location) else { return self.hook(None) };
        let entry = HandlerEntry {
            id: bus.next_id(),
            scope: self.inner.id,
            event: E::NAME,
            stage: at.stage,
            reach: at.reach.unwrap_or(E::REACH),
            time_limit: at.time_limit,
            source: self.inner.source.clone(),
            location,
            identity,
            fails_closed: E::ON_ERROR == OnError::Throw,
            run: Some(Arc::new(run)),
        };
        let mut id = None;
        bus.inner.write_table(|table| {
            id = Some(table.add(TypeId::of::<E>(), entry));
            if self.inner.is_install_committed() {
                table.replace_tombstones(self.inner.id);
            }
        });
        self.inner.undo_if_closed();
        self.hook(id)
    }

    /// Completes the installation of this scope's plugin.
    pub(super) fn commit_install(&self) {
        self.inner.commit_install();
    }

    fn hook(&self, id: Option<u64>) -> Hook {
        Hook { id, scope: Arc::downgrade(&self.inner) }
    }

    fn is_closed_on(&self, bus: &Bus) -> bool {
        bus.is_closed() || self.inner.is_closed()
    }

    /// Returns the bus if this scope accepts registrations; otherwise reports the attempt, unless the bus is
    /// being closed.
    fn open_bus(&self, location: &'static Location<'static>) -> Option<Bus> {
        let bus = self.bus();
        if bus.as_ref().is_some_and(|bus| !self.is_closed_on(bus)) {
            return bus;
        }
        // Checked last, because another thread may close the bus at any time.
        if !bus.is_some_and(|bus| bus.is_closing()) {
            self.inner.reporter.report(&HookError {
                event: "scope:register",
                source: self.inner.source.clone(),
                location,
                cause: Cause::Failed(
                    "the scope is closed, or its bus is: nothing was registered; use a scope of an open bus"
                        .into(),
                ),
            });
        }
        None
    }
}
