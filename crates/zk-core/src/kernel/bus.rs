use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use tokio::runtime::Handle;

use super::registry::{Found, Item, Shelves};
use super::report::Reporter;
use super::scope::{Orphans, ScopeInner, Task};
use super::table::{Entry, Observer, Table, bit, read, write};
use super::{Cx, Event, HookError, OnError, Origin, Reach, Scope, Source};

/// The table of everything registered with one agent, and the way its events travel.
///
/// A bus is a cheap handle; clones are the same bus. A [child](Bus::child) has a table of its own, sees its
/// parent's services and items, and lets the parent's handlers of [`Reach::Descendants`] take part in its
/// events. There is no global bus.
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
    /// [`Table::heard`] of the table.
    heard: AtomicU64,
    pub(super) items: Shelves,
    pub(super) services: Shelves,
    pub(super) parent: Option<Bus>,
    pub(super) policy: OnError,
    origin: Arc<Origin>,
    pub(super) sequence: Sequence,
    pub(super) reporter: Reporter,
    scopes: Mutex<Vec<Arc<ScopeInner>>>,
    /// Tasks that were spawned where there was no runtime.
    waiting_tasks: Mutex<Vec<Weak<Task>>>,
    closed: AtomicBool,
}

/// Ids in the order of registration. Shared by a whole tree, so that the order means the same for parents and
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
    /// What [`OnError::Inherit`] means here; [`OnError::Continue`] unless set.
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

    /// Where failures that do not end an emit are reported. Nothing is printed unless you say so here.
    #[must_use]
    pub fn on_error(mut self, report: impl Fn(&HookError) + Send + Sync + 'static) -> Self {
        self.reporter = Reporter::new(report);
        self
    }

    /// The bus.
    #[must_use]
    pub fn build(self) -> Bus {
        Bus {
            inner: Arc::new(BusInner {
                table: RwLock::default(),
                heard: AtomicU64::new(0),
                items: Shelves::default(),
                services: Shelves::default(),
                parent: None,
                policy: self.policy,
                origin: Arc::new(self.origin),
                sequence: Sequence::default(),
                reporter: self.reporter,
                waiting_tasks: Mutex::default(),
                scopes: Mutex::default(),
                closed: AtomicBool::new(false),
            }),
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
        Self {
            inner: Arc::new(BusInner {
                table: RwLock::default(),
                heard: AtomicU64::new(0),
                items: Shelves::default(),
                services: Shelves::default(),
                parent: Some(self.clone()),
                policy: self.inner.policy,
                origin: Arc::new(Origin { agent: agent.into(), depth: self.inner.origin.depth + 1 }),
                sequence: self.inner.sequence.clone(),
                reporter: self.inner.reporter.clone(),
                waiting_tasks: Mutex::default(),
                scopes: Mutex::default(),
                closed: AtomicBool::new(false),
            }),
        }
    }

    /// A scope for what `source` registers. It lives until it is closed, or the bus is.
    #[must_use]
    pub fn scope(&self, source: impl Into<Arc<str>>) -> Scope {
        let inner = Arc::new(ScopeInner::new(self, Source::new(source)));
        let mut scopes = self.scopes();
        if self.is_closed() {
            inner.seal();
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

    /// Whose bus this is.
    #[must_use]
    pub fn origin(&self) -> &Arc<Origin> {
        &self.inner.origin
    }

    /// Whether anybody would see an `E` emitted here.
    #[must_use]
    pub fn listens<E: Event>(&self) -> bool {
        let event = TypeId::of::<E>();
        if !self.inner.may_hear(bit(event)) {
            return false;
        }
        let own = {
            let table = read(&self.inner.table);
            table.observers().is_some() || table.handlers(event).is_some()
        };
        own || self.ancestors().any(|bus| {
            let table = read(&bus.inner.table);
            table.observers().is_some_and(|all| all.iter().any(|one| one.reach == Reach::Descendants))
                || reaching(table.handlers(event))
        })
    }

    /// Whether anybody would handle an `E` emitted here: observers do not count.
    #[must_use]
    pub fn handles<E: Event>(&self) -> bool {
        let event = TypeId::of::<E>();
        self.inner.may_hear(bit(event))
            && (read(&self.inner.table).handlers(event).is_some()
                || self.ancestors().any(|bus| reaching(read(&bus.inner.table).handlers(event))))
    }

    /// The item called `name` of this bus or the nearest ancestor that has it, inside the decorators of every
    /// bus on the way: one registered here also wraps what is inherited, for this bus only.
    #[must_use]
    pub fn item<T: ?Sized + Send + Sync + 'static>(&self, name: &str) -> Option<Arc<T>> {
        match self.inner.items.get::<T>(name, &self.inner) {
            Found::Item(item) => Some(item),
            Found::Broken => None,
            Found::Absent => {
                let inherited = self.inner.parent.as_ref()?.item::<T>(name)?;
                self.inner.items.dress(name, inherited, &self.inner)
            }
        }
    }

    /// All items of a kind in the order of their names; a child's item hides its parent's of the same name.
    #[must_use]
    pub fn items<T: ?Sized + Send + Sync + 'static>(&self) -> Vec<Item<T>> {
        let mut all = BTreeMap::new();
        let lineage: Vec<_> = self.lineage().collect();
        for bus in lineage.into_iter().rev() {
            bus.inner.items.overlay::<T>(&mut all, &bus.inner);
        }
        all.into_values().collect()
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
        self.lineage().find_map(|bus| match bus.inner.services.get::<T>("", &bus.inner) {
            Found::Item(service) => Some(service),
            Found::Absent | Found::Broken => None,
        })
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

    /// As [`Bus::clear`], and nothing can be registered any more.
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        self.clear().await;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    pub(super) fn next_id(&self) -> u64 {
        self.inner.sequence.next()
    }

    pub(super) fn scopes(&self) -> MutexGuard<'_, Vec<Arc<ScopeInner>>> {
        self.inner.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts `task`, or keeps it for [`Bus::warm_up`] where there is no runtime.
    pub(super) fn start(&self, task: Arc<Task>) {
        match Handle::try_current() {
            Ok(runtime) => task.start(&runtime),
            Err(_) => self.waiting_tasks().push(Arc::downgrade(&task)),
        }
    }

    fn waiting_tasks(&self) -> MutexGuard<'_, Vec<Weak<Task>>> {
        self.inner.waiting_tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ancestors(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(self.inner.parent.as_ref(), |bus| bus.inner.parent.as_ref())
    }

    fn lineage(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.ancestors())
    }

    /// Who takes part in an `E` emitted now: a snapshot, so handlers may register and remove while it runs.
    pub(super) fn plan<E: Event>(&self) -> Plan {
        let event = TypeId::of::<E>();
        if !self.inner.may_hear(bit(event)) {
            return Plan { observers: None, handlers: None };
        }
        let (observers, handlers) = {
            let table = read(&self.inner.table);
            (table.observers().cloned(), table.handlers(event).cloned())
        };
        if self.inner.parent.is_none() {
            return Plan { observers, handlers };
        }
        let mut joined: Vec<Entry> = Vec::new();
        let mut watching: Vec<Observer> = Vec::new();
        for bus in self.ancestors() {
            let table = read(&bus.inner.table);
            let all = table.handlers(event).map_or(&[][..], |all| all);
            joined.extend(all.iter().filter(|one| one.reach == Reach::Descendants).cloned());
            let all = table.observers().map_or(&[][..], |all| all);
            watching.extend(all.iter().filter(|one| one.reach == Reach::Descendants).cloned());
        }
        Plan {
            observers: merge(observers, watching, |one| one.id),
            handlers: merge(handlers, joined, |one| (one.stage, one.id)),
        }
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
        Orphans::close(std::mem::take(scopes));
    }
}

impl BusInner {
    pub(super) fn report(&self, error: &HookError) {
        self.reporter.report(error);
    }

    pub(super) fn write_table(&self, change: impl FnOnce(&mut Table)) {
        let mut table = write(&self.table);
        change(&mut table);
        self.heard.store(table.heard(), Ordering::Release);
    }

    /// Whether anybody here or above may listen to the event with this [bit].
    fn may_hear(&self, bit: u64) -> bool {
        self.heard.load(Ordering::Acquire) & bit != 0
            || self.parent.as_ref().is_some_and(|parent| parent.inner.may_hear(bit))
    }
}

/// Whether one of an ancestor's handlers takes part in the events of its descendants.
fn reaching(handlers: Option<&Arc<[Entry]>>) -> bool {
    handlers.is_some_and(|all| all.iter().any(|one| one.reach == Reach::Descendants))
}

pub(super) struct Plan {
    pub(super) observers: Option<Arc<[Observer]>>,
    pub(super) handlers: Option<Arc<[Entry]>>,
}

fn merge<T: Clone, K: Ord>(
    own: Option<Arc<[T]>>,
    mut joined: Vec<T>,
    key: impl Fn(&T) -> K,
) -> Option<Arc<[T]>> {
    if joined.is_empty() {
        return own;
    }
    joined.extend(own.iter().flat_map(|own| own.iter()).cloned());
    joined.sort_by_key(key);
    Some(joined.into())
}
