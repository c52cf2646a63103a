use std::any::TypeId;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::bus::BusInner;
use super::erase::{Invoke, OfAsync, OfAsyncWith, OfStruct, OfSync, Runner, catch, catch_async};
use super::table::{Entry, Identity, Observer, read};
use super::{
    AnyEvent, AsyncHook, AsyncHookWith, Bus, Cause, Cx, Event, Handler, HookError, IntoReply, NameTaken,
    OnError, Reach, Source, Stage,
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

pub(super) struct ScopeInner {
    id: u64,
    bus: Weak<BusInner>,
    pub(super) source: Source,
    /// Where the plugin was installed, if a plugin owns this scope.
    pub(super) plugin: Option<&'static Location<'static>>,
    cleanups: Mutex<Vec<Cleanup>>,
    closed: AtomicBool,
}

struct Cleanup {
    /// The registration it belongs to, if any.
    of: Option<u64>,
    location: &'static Location<'static>,
    run: Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>,
}

/// When and for whom a handler runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookOptions {
    /// When it runs among the handlers of the event.
    pub stage: Stage,
    /// Whose events it takes part in.
    pub reach: Reach,
    /// How long one call may take, instead of the event's own limit.
    pub time_limit: Option<Duration>,
}

impl From<Stage> for HookOptions {
    fn from(stage: Stage) -> Self {
        Self { stage, ..Self::default() }
    }
}

impl From<Reach> for HookOptions {
    fn from(reach: Reach) -> Self {
        Self { reach, ..Self::default() }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("source", &self.inner.source).finish_non_exhaustive()
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
        self.add::<E>(at.into(), identity, Box::new(OfStruct(handler)))
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
        self.add::<E>(at.into(), Identity::of_fn::<F>(), Box::new(OfSync(f, PhantomData)))
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
        self.add::<E>(at.into(), Identity::of_fn::<F>(), Box::new(OfAsync(f)))
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
        self.add::<E>(at.into(), Identity::Unique, Box::new(OfAsyncWith(state, f)))
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
        self.hook(id)
    }

    /// Registers `item` under `name` among the items of kind `T`, such as `dyn Tool`.
    ///
    /// # Errors
    /// [`NameTaken`], naming both owners, when this bus has an item of that name.
    #[track_caller]
    pub fn provide<T: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        item: Arc<T>,
    ) -> Result<(), NameTaken> {
        let location = Location::caller();
        let Some(bus) = self.open_bus(location) else { return Ok(()) };
        bus.inner.items.put(name, item, self.inner.id, &self.inner.source, location, false)
    }

    /// As [`Scope::provide`], taking over a name that is taken. The hidden item comes back when this scope
    /// closes, and the decorators of the name apply to whichever item has it.
    #[track_caller]
    pub fn provide_replacing<T: ?Sized + Send + Sync + 'static>(&self, name: &str, item: Arc<T>) {
        let location = Location::caller();
        if let Some(bus) = self.open_bus(location) {
            let _ = bus.inner.items.put(name, item, self.inner.id, &self.inner.source, location, true);
        }
    }

    /// Wraps the item called `name`, now or whenever it is registered; the last decorator is the outermost.
    /// This is where retry, caching, timing and sandboxing go.
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
            let id = bus.next_id();
            bus.inner.items.decorate(name, wrap, id, self.inner.id, &self.inner.source, location);
        }
    }

    /// Offers `service` as *the* `T`, in place of an earlier one, which comes back when this scope closes.
    #[track_caller]
    pub fn serve<T: ?Sized + Send + Sync + 'static>(&self, service: Arc<T>) {
        let location = Location::caller();
        if let Some(bus) = self.open_bus(location) {
            let _ = bus.inner.services.put("", service, self.inner.id, &self.inner.source, location, true);
        }
    }

    /// Runs `cleanup` when the scope closes; the newest clean-up runs first.
    #[track_caller]
    pub fn on_close<F, Fut>(&self, cleanup: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.inner.add_cleanup(None, Location::caller(), cleanup);
    }

    /// Removes everything registered through this scope and runs its clean-ups, newest first.
    pub async fn close(&self) {
        if let Some(bus) = self.bus() {
            bus.scopes().retain(|scope| scope.id != self.inner.id);
        }
        self.inner.close().await;
    }

    /// Closes the scope for a reload: its gates stay behind as tombstones that deny, each until the same
    /// source registers a handler for that event again, or the tombstones are lifted.
    pub async fn suspend(&self) -> Tombstones {
        if let Some(bus) = self.inner.bus.upgrade() {
            bus.write_table(|table| {
                table.retain(|entry| {
                    if entry.scope == self.inner.id && entry.guards {
                        entry.run = None;
                        entry.scope = u64::MAX;
                    }
                    true
                });
            });
        }
        self.close().await;
        Tombstones { bus: self.inner.bus.clone(), source: self.inner.source.clone() }
    }

    /// Ties the scope's life to the returned guard: dropping it removes what was registered. Clean-ups run
    /// then on the current runtime, if there is one.
    #[must_use = "dropping the guard closes the scope"]
    pub fn close_on_drop(self) -> ScopeGuard {
        ScopeGuard { scope: self }
    }

    /// Removes everything without running clean-ups: for a plugin that did not get through `register`.
    pub(super) fn forget(&self) {
        self.inner.remove();
        self.inner.cleanups().clear();
        if let Some(bus) = self.bus() {
            bus.scopes().retain(|scope| scope.id != self.inner.id);
        }
    }

    #[track_caller]
    fn add<E: Event>(&self, at: HookOptions, identity: Identity, run: Box<dyn Invoke<E>>) -> Hook {
        let location = Location::caller();
        let Some(bus) = self.open_bus(location) else { return self.hook(None) };
        let entry = Entry {
            id: bus.next_id(),
            scope: self.inner.id,
            event: E::NAME,
            stage: at.stage,
            reach: at.reach,
            time_limit: at.time_limit,
            source: self.inner.source.clone(),
            location,
            identity,
            guards: E::ON_ERROR == OnError::Throw,
            run: Some(Arc::new(Runner::<E>(run))),
        };
        let mut id = None;
        bus.inner.write_table(|table| id = Some(table.add(TypeId::of::<E>(), entry)));
        self.hook(id)
    }

    fn hook(&self, id: Option<u64>) -> Hook {
        Hook { id, scope: Arc::downgrade(&self.inner) }
    }

    fn open_bus(&self, location: &'static Location<'static>) -> Option<Bus> {
        let bus = self.bus()?;
        if bus.is_closed() || self.inner.closed.load(Ordering::Acquire) {
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

impl Bus {
    pub(super) fn plugin_scope(&self, source: Source, at: &'static Location<'static>) -> Scope {
        let mut inner = ScopeInner::new(self, source);
        inner.plugin = Some(at);
        let inner = Arc::new(inner);
        self.scopes().push(inner.clone());
        Scope { inner }
    }
}

impl ScopeInner {
    pub(super) fn new(bus: &Bus, source: Source) -> Self {
        Self {
            id: bus.next_id(),
            bus: Arc::downgrade(&bus.inner),
            source,
            plugin: None,
            cleanups: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) async fn close(&self) {
        self.remove();
        loop {
            let Some(cleanup) = self.cleanups().pop() else { return };
            self.run(cleanup).await;
        }
    }

    fn remove(&self) {
        self.closed.store(true, Ordering::Release);
        let Some(bus) = self.bus.upgrade() else { return };
        bus.write_table(|table| {
            table.retain(|entry| entry.scope != self.id);
            table.retain_observers(|observer| observer.scope != self.id);
        });
        bus.items.remove_scope(self.id);
        bus.services.remove_scope(self.id);
    }

    fn cleanups(&self) -> MutexGuard<'_, Vec<Cleanup>> {
        self.cleanups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_cleanup<F, Fut>(&self, of: Option<u64>, location: &'static Location<'static>, cleanup: F)
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let run: Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send> =
            Box::new(move || Box::pin(cleanup()));
        self.cleanups().push(Cleanup { of, location, run });
    }

    async fn run(&self, cleanup: Cleanup) {
        let Cleanup { location, run, .. } = cleanup;
        let ended = match catch(run) {
            Ok(mut future) => catch_async(future.as_mut()).await,
            Err(message) => Err(message),
        };
        if let (Err(message), Some(bus)) = (ended, self.bus.upgrade()) {
            bus.report(&HookError {
                event: "scope:close",
                source: self.source.clone(),
                location,
                cause: Cause::Panicked(message),
            });
        }
    }
}

/// One registration, for early removal. Dropping it changes nothing.
#[derive(Clone)]
pub struct Hook {
    /// Nothing when the scope was closed already.
    id: Option<u64>,
    scope: Weak<ScopeInner>,
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Hook {
    /// Runs `cleanup` when this registration is cancelled, or when its scope closes.
    #[track_caller]
    pub fn on_close<F, Fut>(self, cleanup: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        if let (Some(scope), Some(id)) = (self.scope.upgrade(), self.id) {
            scope.add_cleanup(Some(id), Location::caller(), cleanup);
        }
        self
    }

    /// Removes the registration at once; a clean-up attached to it stays owed until the scope closes.
    pub fn remove(&self) {
        let Some(id) = self.id else { return };
        let Some(bus) = self.scope.upgrade().and_then(|scope| scope.bus.upgrade()) else { return };
        bus.write_table(|table| {
            table.retain(|entry| entry.id != id);
            table.retain_observers(|observer| observer.id != id);
        });
    }

    /// Removes the registration and runs the clean-ups attached to it.
    pub async fn cancel(self) {
        self.remove();
        let Some(scope) = self.scope.upgrade() else { return };
        loop {
            let next = {
                let mut cleanups = scope.cleanups();
                cleanups
                    .iter()
                    .rposition(|cleanup| cleanup.of.is_some() && cleanup.of == self.id)
                    .map(|at| cleanups.remove(at))
            };
            match next {
                Some(cleanup) => scope.run(cleanup).await,
                None => return,
            }
        }
    }
}

/// The gates a reload removed, each denying until its replacement is in.
#[derive(Debug)]
#[must_use = "the removed gates deny until they are replaced or lifted"]
pub struct Tombstones {
    bus: Weak<BusInner>,
    source: Source,
}

impl Tombstones {
    /// How many removed gates still deny.
    #[must_use]
    pub fn standing(&self) -> usize {
        self.bus.upgrade().map_or(0, |bus| {
            read(&bus.table)
                .entries()
                .filter(|entry| entry.run.is_none() && entry.source == self.source)
                .count()
        })
    }

    /// Lets the remaining events through without a replacement: a decision of the user, never of a reload.
    pub fn lift(self) {
        if let Some(bus) = self.bus.upgrade() {
            bus.write_table(|table| {
                table.retain(|entry| entry.run.is_some() || entry.source != self.source);
            });
        }
    }
}

impl fmt::Debug for BusInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusInner").finish_non_exhaustive()
    }
}

/// Closes its scope when dropped.
#[derive(Debug)]
pub struct ScopeGuard {
    scope: Scope,
}

impl ScopeGuard {
    /// The guarded scope.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Closes the scope and waits for its clean-ups.
    pub async fn close(self) {
        self.scope.close().await;
    }
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        let inner = self.scope.inner.clone();
        inner.remove();
        if let Some(bus) = self.scope.bus() {
            bus.scopes().retain(|scope| scope.id != inner.id);
        }
        if inner.cleanups().is_empty() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { inner.close().await });
        }
    }
}
