use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use tokio::runtime::Handle;

use super::lock::{lock, read, write};
use super::registry::{Found, Item, Names, Registry};
use super::scope::{DetachedScopes, ScopeInner, Task};
use super::{Cx, HookError, OnError, Origin, Registration, Scope, Source};
use crate::emit::table::Table;
use crate::failure::report::Reporter;

/// All registrations of one agent: handlers, observers, items and services.
///
/// A bus is a cheap handle; clones are the same bus. A [child](Bus::child) has registrations of its own, sees
/// its parent's services and items, and its events reach the parent's handlers of
/// [`Reach::Descendants`](super::Reach::Descendants). There is no global bus.
///
/// [`Bus::close`] ends a bus and waits for its clean-ups and tasks. If the last handle is dropped instead,
/// these run on the current runtime in the background; without a runtime, tasks end and each clean-up is
/// polled once. Contexts and children are handles too, so handlers, tasks and clean-ups must keep a [`Scope`]
/// instead of a `Bus`, which would never be dropped otherwise.
#[derive(Clone)]
pub struct Bus {
    pub(super) inner: Arc<BusInner>,
}

pub(super) struct BusInner {
    pub(super) table: RwLock<Table>,
    /// Copy of [`Table::event_bits`], readable without a lock.
    event_bits: AtomicU64,
    pub(super) items: Registry,
    pub(super) services: Registry,
    pub(super) parent: Option<Bus>,
    pub(super) policy: OnError,
    origin: Arc<Origin>,
    pub(super) sequence: Sequence,
    /// Sequence numbers of observed events.
    pub(super) emitted: Sequence,
    pub(super) reporter: Reporter,
    scopes: Mutex<Vec<Arc<ScopeInner>>>,
    /// Tasks that were spawned without a runtime, until [`Bus::warm_up`].
    waiting_tasks: Mutex<Vec<Weak<Task>>>,
    closed: AtomicBool,
}

/// Growing numbers, shared by a whole tree of buses, so that the order is comparable between parents and
/// children.
#[derive(Clone, Default)]
pub(super) struct Sequence(Arc<AtomicU64>);

impl Sequence {
    pub(super) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus")
            .field("origin", &self.inner.origin)
            .field("registrations", &self.describe().len())
            .finish_non_exhaustive()
    }
}

impl Default for Bus {
    fn default() -> Self {
        Self::new()
    }
}

/// Options of a new bus.
#[derive(Clone)]
pub struct BusBuilder {
    policy: OnError,
    origin: Origin,
    reporter: Reporter,
}

impl fmt::Debug for BusBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl BusBuilder {
    /// Sets the policy that [`OnError::Inherit`] stands for on this bus; [`OnError::Continue`] by default.
    #[must_use]
    pub fn policy(mut self, policy: OnError) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the name of the root agent; `main` by default.
    #[must_use]
    pub fn agent(mut self, name: impl Into<Arc<str>>) -> Self {
        self.origin.agent = name.into();
        self
    }

    /// Sets the receiver of failures that end no emission. The kernel itself prints nothing.
    #[must_use]
    pub fn on_error(mut self, report: impl Fn(&HookError) + Send + Sync + 'static) -> Self {
        self.reporter = Reporter::new(report);
        self
    }

    /// Builds the bus with these options.
    #[must_use]
    pub fn build(self) -> Bus {
        Bus {
            inner: Arc::new(BusInner::new(
                None,
                self.policy,
                self.origin,
                [Sequence::default(), Sequence::default()],
                self.reporter,
            )),
        }
    }
}

impl Bus {
    /// Creates a bus with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns the options for a new bus.
    #[must_use]
    pub fn builder() -> BusBuilder {
        BusBuilder { policy: OnError::Continue, origin: Origin::default(), reporter: Reporter::new(|_| ()) }
    }

    /// Creates the bus of a sub-agent called `agent`, one level deeper.
    #[must_use]
    pub fn child(&self, agent: impl Into<Arc<str>>) -> Self {
        let BusInner { policy, sequence, emitted, reporter, origin, .. } = &*self.inner;
        let origin = Origin { agent: agent.into(), depth: origin.depth + 1 };
        let parent = Some(self.clone());
        let sequences = [sequence.clone(), emitted.clone()];
        Self { inner: Arc::new(BusInner::new(parent, *policy, origin, sequences, reporter.clone())) }
    }

    /// Creates a scope for the registrations of `source`, which is open until it or the bus is closed.
    #[must_use]
    pub fn scope(&self, source: impl Into<Arc<str>>) -> Scope {
        let inner = Arc::new(ScopeInner::new(self, Source::new(source)));
        let mut scopes = self.scopes();
        if self.is_closed() {
            inner.reject_registrations();
        } else {
            scopes.push(inner.clone());
        }
        drop(scopes);
        Scope::from_inner(inner)
    }

    /// Creates a context for events outside of any run.
    #[must_use]
    pub fn cx(&self) -> Cx {
        Cx::new(self.clone())
    }

    /// Returns the agent that this bus belongs to.
    #[must_use]
    pub fn origin(&self) -> &Arc<Origin> {
        &self.inner.origin
    }

    /// Looks up an item by name on this bus, or on the nearest ancestor that has it. Decorators of every bus
    /// on the way apply: a decorator registered here wraps inherited items too, for this bus only.
    #[must_use]
    pub fn item<T: ?Sized + Send + Sync + 'static>(&self, name: &str) -> Option<Arc<T>> {
        match self.inner.items.get::<T>(name, &self.inner.reporter) {
            Found::Item(item) => Some(item),
            Found::Broken => None,
            Found::Absent => {
                let inherited = self.inner.parent.as_ref()?.item::<T>(name)?;
                self.inner.items.decorate(name, inherited, &self.inner.reporter)
            }
        }
    }

    /// Wraps an unregistered `item` in the decorators that an item called `name` has here; `None` if a
    /// decorator panicked.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use zk_kernel::Bus;
    ///
    /// let bus = Bus::new();
    /// bus.scope("loud").decorate::<String>("greeting", |inner| Arc::new(inner.to_uppercase()));
    /// let greeting = bus.decorate("greeting", Arc::new("hello".to_owned()));
    /// assert_eq!(greeting.unwrap().as_str(), "HELLO");
    /// ```
    #[must_use]
    pub fn decorate<T: ?Sized + Send + Sync + 'static>(&self, name: &str, item: Arc<T>) -> Option<Arc<T>> {
        let item = match &self.inner.parent {
            Some(parent) => parent.decorate(name, item)?,
            None => item,
        };
        self.inner.items.decorate(name, item, &self.inner.reporter)
    }

    /// Returns all items of type `T`, sorted by name; a child's item hides its parent's of the same name.
    #[must_use]
    pub fn items<T: ?Sized + Send + Sync + 'static>(&self) -> Vec<Item<T>> {
        let mut all = Names::default();
        let lineage: Vec<_> = self.lineage().collect();
        for bus in lineage.into_iter().rev() {
            bus.inner.items.overlay::<T>(&mut all, &bus.inner.reporter);
        }
        all.into_entries().into_iter().map(|(_, item)| item).collect()
    }

    /// Returns a counter of all changes of items and decorators on this bus and its ancestors. While it is
    /// unchanged, a list of [`Bus::items`] made after reading it is up to date. Services do not count.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.lineage().fold(0, |sum, bus| sum.wrapping_add(bus.inner.items.generation()))
    }

    /// Looks up the service of type `T` on this bus, or on the nearest ancestor that has one.
    #[must_use]
    pub fn service<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.lineage().find_map(|bus| match bus.inner.services.get::<T>("", &bus.inner.reporter) {
            Found::Item(service) => Some(service),
            Found::Absent | Found::Broken => None,
        })
    }

    /// Describes all registrations of this bus (not of its ancestors), in a stable order.
    #[must_use]
    pub fn describe(&self) -> Vec<Registration> {
        let mut all = Vec::new();
        read(&self.inner.table).describe(&mut all);
        self.inner.items.describe(false, &mut all);
        self.inner.services.describe(true, &mut all);
        all.sort();
        all
    }

    /// Starts the tasks that were [spawned](Scope::spawn) without a runtime, on this bus and its ancestors.
    /// Does nothing without a runtime.
    pub fn warm_up(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        for bus in self.lineage() {
            let waiting = std::mem::take(&mut *bus.waiting_tasks());
            waiting.iter().filter_map(Weak::upgrade).for_each(|task| task.start(&runtime));
        }
    }

    /// Closes all scopes, newest first, and leaves the bus usable.
    pub async fn clear(&self) {
        loop {
            let Some(scope) = self.scopes().last().cloned() else { return };
            scope.close().await;
        }
    }

    /// Closes all scopes like [`Bus::clear`], and rejects registrations from now on. Registrations that a
    /// task attempts meanwhile are ignored without a report.
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        self.clear().await;
    }

    /// Whether the bus was closed and some scopes are still closing.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closed() && !self.scopes().is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    pub(super) fn next_id(&self) -> u64 {
        self.inner.sequence.next()
    }

    pub(super) fn scopes(&self) -> MutexGuard<'_, Vec<Arc<ScopeInner>>> {
        lock(&self.inner.scopes)
    }

    /// Starts `task`, or keeps it for [`Bus::warm_up`] if there is no runtime.
    pub(super) fn start(&self, task: Arc<Task>) {
        match Handle::try_current() {
            Ok(runtime) => task.start(&runtime),
            Err(_) => self.waiting_tasks().push(Arc::downgrade(&task)),
        }
    }

    fn waiting_tasks(&self) -> MutexGuard<'_, Vec<Weak<Task>>> {
        lock(&self.inner.waiting_tasks)
    }

    pub(super) fn ancestors(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(self.inner.parent.as_ref(), |bus| bus.inner.parent.as_ref())
    }

    fn lineage(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.ancestors())
    }
}

impl fmt::Debug for BusInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusInner").finish_non_exhaustive()
    }
}

impl Drop for BusInner {
    fn drop(&mut self) {
        let scopes = self.scopes.get_mut().unwrap_or_else(PoisonError::into_inner);
        DetachedScopes::close(std::mem::take(scopes));
    }
}

impl BusInner {
    fn new(
        parent: Option<Bus>,
        policy: OnError,
        origin: Origin,
        [sequence, emitted]: [Sequence; 2],
        reporter: Reporter,
    ) -> Self {
        Self {
            table: RwLock::default(),
            event_bits: AtomicU64::new(0),
            items: Registry::default(),
            services: Registry::default(),
            parent,
            policy,
            origin: Arc::new(origin),
            sequence,
            emitted,
            reporter,
            waiting_tasks: Mutex::default(),
            scopes: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn write_table(&self, change: impl FnOnce(&mut Table)) {
        let mut table = write(&self.table);
        change(&mut table);
        self.event_bits.store(table.event_bits(), Ordering::Release);
    }

    /// Whether the event with this [bit](crate::emit::table::event_bit) may have a handler or observer here
    /// or on an ancestor.
    pub(super) fn may_have_listeners(&self, bit: u64) -> bool {
        self.event_bits.load(Ordering::Acquire) & bit != 0
            || self.parent.as_ref().is_some_and(|parent| parent.inner.may_have_listeners(bit))
    }
}
