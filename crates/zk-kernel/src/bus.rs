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

/// Everything registered with one agent: handlers, observers, items and services.
///
/// A bus is a cheap handle; clones are the same bus. A [child](Bus::child) has registrations of its own, sees its
/// parent's services and items, and its events reach the parent's handlers of
/// [`Reach::Descendants`](super::Reach::Descendants). There is no global bus.
///
/// [`Bus::close`] ends a bus and waits for its clean-ups and tasks. When the last handle is dropped without that,
/// they run on the current runtime with nobody waiting; without a runtime, tasks end and each clean-up is polled
/// once. Contexts and children are handles too, so what a bus owns (handlers, tasks, clean-ups) keeps a [`Scope`]
/// instead: one that keeps a `Bus` keeps it from ever being dropped.
#[derive(Clone)]
pub struct Bus {
    pub(super) inner: Arc<BusInner>,
}

pub(super) struct BusInner {
    pub(super) table: RwLock<Table>,
    /// [`Table::event_bits`] of the table.
    event_bits: AtomicU64,
    pub(super) items: Registry,
    pub(super) services: Registry,
    pub(super) parent: Option<Bus>,
    pub(super) policy: OnError,
    origin: Arc<Origin>,
    pub(super) sequence: Sequence,
    /// Numbers of the events that are observed.
    pub(super) emitted: Sequence,
    pub(super) reporter: Reporter,
    scopes: Mutex<Vec<Arc<ScopeInner>>>,
    /// Tasks that were spawned where there was no runtime.
    waiting_tasks: Mutex<Vec<Weak<Task>>>,
    closed: AtomicBool,
}

/// Numbers that grow. Shared by a whole tree, so that the order means the same for parents and children.
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

/// Settings of a new bus.
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
    /// Policy that [`OnError::Inherit`] stands for on this bus; [`OnError::Continue`] unless set.
    #[must_use]
    pub fn policy(mut self, policy: OnError) -> Self {
        self.policy = policy;
        self
    }

    /// The name of the root agent; `main` unless set.
    #[must_use]
    pub fn agent(mut self, name: impl Into<Arc<str>>) -> Self {
        self.origin.agent = name.into();
        self
    }

    /// Receiver of the failures that end no emit. The kernel itself prints nothing.
    #[must_use]
    pub fn on_error(mut self, report: impl Fn(&HookError) + Send + Sync + 'static) -> Self {
        self.reporter = Reporter::new(report);
        self
    }

    /// Builds the bus.
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
    /// A bus with the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Settings for a new bus.
    #[must_use]
    pub fn builder() -> BusBuilder {
        BusBuilder { policy: OnError::Continue, origin: Origin::default(), reporter: Reporter::new(|_| ()) }
    }

    /// The bus of a sub-agent called `agent`, one level deeper.
    #[must_use]
    pub fn child(&self, agent: impl Into<Arc<str>>) -> Self {
        let BusInner { policy, sequence, emitted, reporter, origin, .. } = &*self.inner;
        let origin = Origin { agent: agent.into(), depth: origin.depth + 1 };
        let parent = Some(self.clone());
        let sequences = [sequence.clone(), emitted.clone()];
        Self { inner: Arc::new(BusInner::new(parent, *policy, origin, sequences, reporter.clone())) }
    }

    /// A scope for the registrations of `source`. It lives until it is closed, or the bus is.
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

    /// A context for events outside any run.
    #[must_use]
    pub fn cx(&self) -> Cx {
        Cx::new(self.clone())
    }

    /// The agent this bus belongs to.
    #[must_use]
    pub fn origin(&self) -> &Arc<Origin> {
        &self.inner.origin
    }

    /// The item called `name` of this bus or the nearest ancestor that has it, inside the decorators of every
    /// bus on the way: one registered here also wraps what is inherited, for this bus only.
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

    /// `item`, which no bus has registered, inside the decorators that an item called `name` has here; nothing where one of
    /// them panicked.
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

    /// All items of a kind in the order of their names; a child's item hides its parent's of the same name.
    #[must_use]
    pub fn items<T: ?Sized + Send + Sync + 'static>(&self) -> Vec<Item<T>> {
        let mut all = Names::default();
        let lineage: Vec<_> = self.lineage().collect();
        for bus in lineage.into_iter().rev() {
            bus.inner.items.overlay::<T>(&mut all, &bus.inner.reporter);
        }
        all.into_entries().into_iter().map(|(_, item)| item).collect()
    }

    /// Number of changes of registry items and decorators, of any kind, on this bus and its ancestors. As long
    /// as it stands still, a list made of [`Bus::items`] after reading it is up to date. Services do not count.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.lineage().fold(0, |sum, bus| sum.wrapping_add(bus.inner.items.generation()))
    }

    /// The service of type `T`, of this bus or the nearest ancestor that has one.
    #[must_use]
    pub fn service<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.lineage().find_map(|bus| match bus.inner.services.get::<T>("", &bus.inner.reporter) {
            Found::Item(service) => Some(service),
            Found::Absent | Found::Broken => None,
        })
    }

    /// Everything registered with this bus (not with its ancestors), in a stable order.
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
    /// Without a runtime it does nothing.
    pub fn warm_up(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        for bus in self.lineage() {
            let waiting = std::mem::take(&mut *bus.waiting_tasks());
            waiting.iter().filter_map(Weak::upgrade).for_each(|task| task.start(&runtime));
        }
    }

    /// Closes every scope, newest first, and keeps the bus usable.
    pub async fn clear(&self) {
        loop {
            let Some(scope) = self.scopes().last().cloned() else { return };
            scope.close().await;
        }
    }

    /// Clears as [`Bus::clear`] does; nothing can be registered afterwards. What a task registers meanwhile
    /// is left out unreported: it could not know.
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        self.clear().await;
    }

    /// Whether it was closed and its scopes are still being closed.
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

    /// Starts `task`, or keeps it for [`Bus::warm_up`] where there is no runtime.
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

    /// Whether the event with this [bit](crate::emit::table::event_bit) may have a handler or an observer here or above.
    pub(super) fn may_have_listeners(&self, bit: u64) -> bool {
        self.event_bits.load(Ordering::Acquire) & bit != 0
            || self.parent.as_ref().is_some_and(|parent| parent.inner.may_have_listeners(bit))
    }
}
