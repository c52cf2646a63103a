use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::kernel::bus::BusInner;
use crate::kernel::erase::{catch, catch_async};
use crate::kernel::{Bus, Cause, HookError, Source};

pub(in crate::kernel) struct ScopeInner {
    pub(super) id: u64,
    pub(super) bus: Weak<BusInner>,
    pub(in crate::kernel) source: Source,
    /// Where the plugin was installed, if a plugin owns this scope.
    plugin: Option<&'static Location<'static>>,
    /// Whether what is registered here replaces tombstones already: not while a plugin's `register` may fail.
    admitted: AtomicBool,
    cleanups: Mutex<Cleanups>,
    closed: AtomicBool,
}

#[derive(Default)]
struct Cleanups {
    /// The oldest first.
    owed: Vec<Cleanup>,
    /// Whether the scope has run the last one: a later one has nobody left to wait for it.
    done: bool,
}

struct Cleanup {
    id: u64,
    /// The registration it belongs to, if any.
    of: Option<u64>,
    location: &'static Location<'static>,
    run: RunCleanup,
}

type RunCleanup = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

async fn finish_cleanup(run: RunCleanup) -> Result<(), String> {
    let mut future = catch(run)?;
    catch_async(future.as_mut()).await
}

impl ScopeInner {
    pub(in crate::kernel) fn new(bus: &Bus, source: Source) -> Self {
        Self {
            id: bus.next_id(),
            bus: Arc::downgrade(&bus.inner),
            source,
            plugin: None,
            admitted: AtomicBool::new(true),
            cleanups: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// The scope of a plugin that is being installed at `at`.
    pub(in crate::kernel) fn of_plugin(bus: &Bus, source: Source, at: &'static Location<'static>) -> Self {
        Self { plugin: Some(at), admitted: AtomicBool::new(false), ..Self::new(bus, source) }
    }

    /// The plugin is in whole: what it registered stands in for what a reload removed.
    pub(super) fn admit(&self) {
        let Some(bus) = self.bus.upgrade() else { return };
        bus.write_table(|table| {
            self.admitted.store(true, Ordering::Release);
            table.replace_tombstones(self.id);
        });
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Acquire)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Where the plugin that owns this scope was installed, while it is.
    pub(in crate::kernel) fn installed_at(&self) -> Option<&'static Location<'static>> {
        if self.is_closed() { None } else { self.plugin }
    }

    /// For a scope made on a bus that is closed: nothing can be registered through it.
    pub(in crate::kernel) fn seal(&self) {
        self.closed.store(true, Ordering::Release);
        self.cleanups().done = true;
    }

    pub(in crate::kernel) async fn close(&self) {
        self.remove();
        loop {
            let next = {
                let mut cleanups = self.cleanups();
                let next = cleanups.owed.pop();
                cleanups.done = next.is_none();
                next
            };
            match next {
                Some(cleanup) => self.run(cleanup).await,
                None => break,
            }
        }
        self.finish();
    }

    /// Nothing is owed any more: the bus forgets the scope.
    pub(super) fn finish(&self) {
        self.cleanups().done = true;
        if let Some(inner) = self.bus.upgrade() {
            Bus { inner }.scopes().retain(|scope| scope.id != self.id);
        }
    }

    pub(super) fn remove(&self) {
        self.closed.store(true, Ordering::Release);
        let Some(bus) = self.bus.upgrade() else { return };
        bus.write_table(|table| {
            table.retain(|entry| entry.scope != self.id);
            table.retain_observers(|observer| observer.scope != self.id);
        });
        bus.items.remove_scope(self.id, &bus);
        bus.services.remove_scope(self.id, &bus);
    }

    /// Another thread may have closed the scope while something was being registered through it.
    pub(super) fn undo_if_closed(&self) {
        if self.is_closed() {
            self.remove();
        }
    }

    fn cleanups(&self) -> MutexGuard<'_, Cleanups> {
        self.cleanups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn owes_nothing(&self) -> bool {
        self.cleanups().owed.is_empty()
    }

    /// Takes the clean-up `id` back: it will not run.
    pub(super) fn withdraw_cleanup(&self, id: u64) {
        self.cleanups().owed.retain(|cleanup| cleanup.id != id);
    }

    /// Runs the clean-ups attached to the registration `id`, newest first.
    pub(super) async fn run_attached(&self, id: u64) {
        loop {
            let next = {
                let mut cleanups = self.cleanups();
                let at = cleanups.owed.iter().rposition(|cleanup| cleanup.of == Some(id));
                at.map(|at| cleanups.owed.remove(at))
            };
            match next {
                Some(cleanup) => self.run(cleanup).await,
                None => return,
            }
        }
    }

    /// The id of the clean-up, unless the scope is done with them and it was started at once.
    pub(super) fn add_cleanup<F, Fut>(
        &self,
        of: Option<u64>,
        location: &'static Location<'static>,
        cleanup: F,
    ) -> Option<u64>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let bus = self.bus.upgrade().map(|inner| Bus { inner })?;
        let id = bus.next_id();
        let cleanup = Cleanup { id, of, location, run: Box::new(move || Box::pin(cleanup())) };
        let mut cleanups = self.cleanups();
        if !cleanups.done {
            cleanups.owed.push(cleanup);
            return Some(id);
        }
        drop(cleanups);
        self.run_late(&bus, cleanup);
        None
    }

    /// A clean-up that comes after the close: dropping it unheard would leak what it cleans up.
    fn run_late(&self, bus: &Bus, cleanup: Cleanup) {
        let Cleanup { location, run, .. } = cleanup;
        let (report, source) = (bus.inner.clone(), self.source.clone());
        let error = move |cause| HookError { event: "scope:close", source: source.clone(), location, cause };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move {
                    if let Err(message) = finish_cleanup(run).await {
                        report.report(&error(Cause::Panicked(message)));
                    }
                });
            }
            Err(_) => report.report(&error(Cause::Failed(
                "the scope is closed and there is no runtime to run this clean-up on: it did not run".into(),
            ))),
        }
    }

    async fn run(&self, cleanup: Cleanup) {
        let Cleanup { location, run, .. } = cleanup;
        if let (Err(message), Some(bus)) = (finish_cleanup(run).await, self.bus.upgrade()) {
            bus.report(&HookError {
                event: "scope:close",
                source: self.source.clone(),
                location,
                cause: Cause::Panicked(message),
            });
        }
    }
}
