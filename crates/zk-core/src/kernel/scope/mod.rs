mod guard;
mod hook;
mod inner;
mod items;
mod orphans;
mod task;
mod tombstones;

use std::any::{TypeId, type_name};
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

pub use guard::ScopeGuard;
pub use hook::Hook;
pub(super) use inner::ScopeInner;
pub(super) use orphans::Orphans;
pub(super) use task::Task;
use tombstones::NO_SCOPE;
pub use tombstones::Tombstones;

use super::erase::Runner;
use super::shelf::{Claim, Decorator};
use super::table::{Entry, Identity, Observer};
use super::{
    AnyEvent, AsyncHook, AsyncHookWith, Bus, Cause, Cx, Event, Handler, HookError, IntoReply, OnError,
    ProvideError, Reach, Source, Stage,
};

/// One plugin's registrations: everything registered through it carries its [`Source`] and leaves with it.
///
/// A scope is a handle; clones are the same scope, and dropping a handle removes nothing. It ends with
/// [`Scope::close`], with its bus, or with the [guard](Scope::close_on_drop) of a scope that must not outlive
/// a run.
#[derive(Clone)]
pub struct Scope {
    inner: Arc<ScopeInner>,
}

/// When and for whom a handler runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookOptions {
    /// When it runs among the handlers of the event.
    pub stage: Stage,
    /// Whose events it receives; `None` is the event's own [`Event::REACH`].
    pub reach: Option<Reach>,
    /// How long one call may take, instead of the event's own limit. It bounds a handler that waits; nothing
    /// can interrupt one that blocks its thread.
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

    /// Who registers through this scope.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.inner.source
    }

    /// The bus of this scope, unless it is gone.
    #[must_use]
    pub fn bus(&self) -> Option<Bus> {
        self.inner.bus.upgrade().map(|inner| Bus { inner })
    }

    /// Registers a handler with state of its own. Registering the same `Arc` twice is one registration.
    #[track_caller]
    pub fn handle<E: Event, H: Handler<E>>(&self, handler: Arc<H>) -> Hook {
        self.handle_at::<E, H>(HookOptions::default(), handler)
    }

    /// As [`Scope::handle`], with a stage, a reach or a time limit.
    #[track_caller]
    pub fn handle_at<E: Event, H: Handler<E>>(&self, at: impl Into<HookOptions>, handler: Arc<H>) -> Hook {
        let identity = Identity::of_arc(&handler);
        self.add::<E>(at.into(), identity, Runner::of_struct(handler))
    }

    /// Registers a closure that answers at once. It never allocates when called. A function registered twice
    /// is one registration; closures that capture something are each their own.
    #[track_caller]
    pub fn on_sync<E, R>(&self, f: impl Fn(&E, &Cx) -> R + Send + Sync + 'static) -> Hook
    where
        E: Event,
        R: IntoReply<E> + 'static,
    {
        self.on_sync_at(HookOptions::default(), f)
    }

    /// As [`Scope::on_sync`], with a stage, a reach or a time limit.
    #[track_caller]
    pub fn on_sync_at<E, R, F>(&self, at: impl Into<HookOptions>, f: F) -> Hook
    where
        E: Event,
        R: IntoReply<E> + 'static,
        F: Fn(&E, &Cx) -> R + Send + Sync + 'static,
    {
        self.add::<E>(at.into(), Identity::of_fn::<F>(), Runner::of_sync(f))
    }

    /// Registers an `async fn` or an async closure that captures nothing. One box for each call.
    #[track_caller]
    pub fn on_async<E: Event>(&self, f: impl for<'a> AsyncHook<'a, E>) -> Hook {
        self.on_async_at(HookOptions::default(), f)
    }

    /// As [`Scope::on_async`], with a stage, a reach or a time limit.
    #[track_caller]
    pub fn on_async_at<E, F>(&self, at: impl Into<HookOptions>, f: F) -> Hook
    where
        E: Event,
        F: for<'a> AsyncHook<'a, E>,
    {
        self.add::<E>(at.into(), Identity::of_fn::<F>(), Runner::of_async(f))
    }

    /// As [`Scope::on_async`], with state handed to each call.
    #[track_caller]
    pub fn on_async_with<E, S, F>(&self, state: S, f: F) -> Hook
    where
        E: Event,
        S: Send + Sync + 'static,
        F: for<'a> AsyncHookWith<'a, S, E>,
    {
        self.on_async_with_at(HookOptions::default(), state, f)
    }

    /// As [`Scope::on_async_with`], with a stage, a reach or a time limit.
    #[track_caller]
    pub fn on_async_with_at<E, S, F>(&self, at: impl Into<HookOptions>, state: S, f: F) -> Hook
    where
        E: Event,
        S: Send + Sync + 'static,
        F: for<'a> AsyncHookWith<'a, S, E>,
    {
        self.add::<E>(at.into(), Identity::Unique, Runner::of_async_with(state, f))
    }

    /// Registers an observer: every event, as emitted, once, before its handlers. It cannot answer.
    #[track_caller]
    pub fn observe(&self, f: impl Fn(&dyn AnyEvent, &Cx) + Send + Sync + 'static) -> Hook {
        self.observe_at(Reach::Own, f)
    }

    /// As [`Scope::observe`], also of the events of descendants if asked.
    #[track_caller]
    pub fn observe_at<F>(&self, reach: Reach, f: F) -> Hook
    where
        F: Fn(&dyn AnyEvent, &Cx) + Send + Sync + 'static,
    {
        let location = Location::caller();
        let Some(bus) = self.open_bus(location) else { return self.hook(None) };
        let observer = Observer {
            id: bus.next_id(),
            scope: self.inner.id,
            reach,
            source: self.inner.source.clone(),
            location,
            identity: Identity::of_fn::<F>(),
            run: Arc::new(f),
        };
        let mut id = None;
        bus.inner.write_table(|table| id = Some(table.add_observer(observer)));
        self.inner.undo_if_closed();
        self.hook(id)
    }

    /// Registers `item` under `name` among the items of kind `T`, such as `dyn Tool`.
    ///
    /// # Errors
    /// [`ProvideError`]: this bus has an item of that name, or the scope or the bus is closed.
    #[track_caller]
    pub fn provide<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        item: Arc<T>,
    ) -> Result<(), ProvideError> {
        let location = Location::caller();
        let closed = || ProvideError::Closed {
            kind: type_name::<T>(),
            name: name.to_owned(),
            claimant: self.inner.source.clone(),
        };
        let bus = self.bus().filter(|bus| !self.is_closed_on(bus)).ok_or_else(closed)?;
        bus.inner.items.put(name, self.claim(item, location), false)?.tell(&bus.inner);
        self.inner.undo_if_closed();
        if self.is_closed_on(&bus) { Err(closed()) } else { Ok(()) }
    }

    /// As [`Scope::provide`], taking over a name that is taken. The hidden item comes back when this scope
    /// closes, and the decorators of the name apply to whichever item has it.
    #[track_caller]
    pub fn provide_replacing<T: ?Sized + Send + Sync + 'static>(&self, name: &str, item: Arc<T>) {
        let location = Location::caller();
        if let Some(bus) = self.open_bus(location) {
            if let Ok(news) = bus.inner.items.put(name, self.claim(item, location), true) {
                news.tell(&bus.inner);
            }
            self.inner.undo_if_closed();
        }
    }

    /// Wraps the item called `name`, now or whenever it is registered; the last decorator is the outermost.
    /// This is where retry, caching, timing and sandboxing go. On the bus of a sub-agent it also wraps an item
    /// that is inherited, for that sub-agent and its own children only.
    ///
    /// `wrap` must not look up the item it wraps.
    #[track_caller]
    pub fn decorate<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        wrap: impl Fn(Arc<T>) -> Arc<T> + Send + Sync + 'static,
    ) {
        self.add_decorator(Some(name), Arc::new(wrap), Location::caller());
    }

    /// As [`Scope::decorate`], for every item of kind `T`.
    #[track_caller]
    pub fn decorate_all<T: ?Sized + Send + Sync + 'static>(
        &self,
        wrap: impl Fn(Arc<T>) -> Arc<T> + Send + Sync + 'static,
    ) {
        self.add_decorator(None, Arc::new(wrap), Location::caller());
    }

    fn add_decorator<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: Option<&str>,
        wrap: Arc<dyn Fn(Arc<T>) -> Arc<T> + Send + Sync>,
        location: &'static Location<'static>,
    ) {
        if let Some(bus) = self.open_bus(location) {
            let decorator = Decorator {
                id: bus.next_id(),
                scope: self.inner.id,
                source: self.inner.source.clone(),
                location,
                wrap,
            };
            bus.inner.items.decorate(name, decorator);
            self.inner.undo_if_closed();
        }
    }

    fn claim<T: ?Sized>(&self, item: Arc<T>, location: &'static Location<'static>) -> Claim<T> {
        Claim { scope: self.inner.id, source: self.inner.source.clone(), location, item }
    }

    /// Offers `service` as *the* `T`, in place of an earlier one, which comes back when this scope closes.
    #[track_caller]
    pub fn provide_service<T: ?Sized + Send + Sync + 'static>(&self, service: Arc<T>) {
        let location = Location::caller();
        if let Some(bus) = self.open_bus(location) {
            let _ = bus.inner.services.put("", self.claim(service, location), true);
            self.inner.undo_if_closed();
        }
    }

    /// Runs `cleanup` when the scope closes; the newest clean-up runs first. Removing the returned hook before
    /// that takes it back. On a scope that is closed already it runs at once, on the current runtime.
    #[track_caller]
    pub fn on_close<F, Fut>(&self, cleanup: F) -> Hook
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let id = self.inner.add_cleanup(None, Location::caller(), cleanup);
        self.hook(id)
    }

    /// Runs `task` in the background until it ends or the scope closes: a close drops it at its next `.await`
    /// and waits for that. Tasks and clean-ups leave newest first, so a clean-up registered after the task
    /// can tell it to end in its own way. A panic is reported.
    ///
    /// Where there is no runtime, the task waits for [`Bus::warm_up`], which an agent calls when a run starts.
    /// [Cancelling](Hook::cancel) the returned hook ends the task alone.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use zk_core::kernel::Bus;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let bus = Bus::new();
    /// bus.scope("heartbeat").spawn(async {
    ///     loop {
    ///         tokio::time::sleep(Duration::from_secs(30)).await;
    ///     }
    /// });
    /// bus.close().await; // the task is gone
    /// # });
    /// ```
    #[track_caller]
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Hook {
        let location = Location::caller();
        let added = self.open_bus(location).and_then(|bus| {
            let (id, task) = self.inner.add_task(location, task)?;
            bus.start(task);
            Some(id)
        });
        self.hook(added)
    }

    /// Removes everything registered through this scope and runs its clean-ups, newest first. If this future
    /// is dropped half-way, the clean-ups not begun stay owed to the next close of the scope or the bus.
    pub async fn close(&self) {
        self.inner.close().await;
    }

    /// Closes the scope for a reload: its gates stay behind as tombstones that deny, each until the same
    /// source registers a handler for that event again, or the tombstones are lifted. A replacement that is
    /// installed as a plugin counts only once its whole `register` went through.
    pub async fn suspend(&self) -> Tombstones {
        let mut ids = Vec::new();
        if let Some(bus) = self.inner.bus.upgrade() {
            bus.write_table(|table| {
                table.retain(|entry| {
                    if entry.scope == self.inner.id && entry.guards {
                        entry.run = None;
                        entry.scope = NO_SCOPE;
                        ids.push(entry.id);
                    }
                    true
                });
            });
        }
        self.close().await;
        Tombstones { bus: self.inner.bus.clone(), ids }
    }

    /// Ties the scope's life to the returned guard: dropping it removes what was registered. Clean-ups run
    /// then on the current runtime, if there is one.
    #[must_use = "dropping the guard closes the scope"]
    pub fn close_on_drop(self) -> ScopeGuard {
        ScopeGuard { scope: self }
    }

    /// Removes everything at once and leaves the clean-ups to the current runtime, or else to the bus's close.
    pub(super) fn abandon(&self) {
        self.inner.remove();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            if !self.inner.has_no_cleanups() {
                let inner = self.inner.clone();
                runtime.spawn(async move { inner.close().await });
                return;
            }
        } else {
            self.inner.end_tasks();
        }
        if self.inner.has_no_cleanups() {
            self.inner.finish();
        }
    }

    /// Ends the installation of this scope's plugin.
    pub(super) fn commit_install(&self) {
        self.inner.commit_install();
    }

    #[track_caller]
    fn add<E: Event>(&self, at: HookOptions, identity: Identity, run: Runner<E>) -> Hook {
        let location = Location::caller();
        let Some(bus) = self.open_bus(location) else { return self.hook(None) };
        let entry = Entry {
            id: bus.next_id(),
            scope: self.inner.id,
            event: E::NAME,
            stage: at.stage,
            reach: at.reach.unwrap_or(E::REACH),
            time_limit: at.time_limit,
            source: self.inner.source.clone(),
            location,
            identity,
            guards: E::ON_ERROR == OnError::Throw,
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

    fn hook(&self, id: Option<u64>) -> Hook {
        Hook { id, scope: Arc::downgrade(&self.inner) }
    }

    fn is_closed_on(&self, bus: &Bus) -> bool {
        bus.is_closed() || self.inner.is_closed()
    }

    fn open_bus(&self, location: &'static Location<'static>) -> Option<Bus> {
        let bus = self.bus()?;
        if self.is_closed_on(&bus) {
            bus.inner.report(&HookError {
                event: "scope:register",
                source: self.inner.source.clone(),
                location,
                cause: Cause::Failed("the scope is closed, nothing was registered".into()),
            });
            return None;
        }
        Some(bus)
    }
}
