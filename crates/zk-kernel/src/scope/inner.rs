use std::future::Future;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

use super::task::Task;
use crate::bus::{BusInner, Sequence};
use crate::failure::catch::{catch, catch_async};
use crate::failure::report::Reporter;
use crate::lock::lock;
use crate::{Bus, Cause, HookError, Source};

/// Shared state of a scope: its identity, clean-ups and tasks.
pub(crate) struct ScopeInner {
    pub(super) id: u64,
    pub(super) bus: Weak<BusInner>,
    pub(crate) source: Source,
    /// Location of the plugin's installation, if the scope belongs to a plugin.
    plugin: Option<&'static Location<'static>>,
    /// Whether new registrations replace tombstones: false while the plugin's `register` may still fail.
    install_committed: AtomicBool,
    cleanups: Mutex<Cleanups>,
    closed: AtomicBool,
    /// Sequence and reporter of the bus, which outlive it for the remaining clean-ups.
    sequence: Sequence,
    pub(super) reporter: Reporter,
}

#[derive(Default)]
struct Cleanups {
    /// Clean-ups to run, oldest first.
    pending: Vec<Cleanup>,
    /// Whether the last clean-up has run; no later one would be waited for.
    done: bool,
}

struct Cleanup {
    id: u64,
    /// Id of the registration that the clean-up is attached to, if any.
    of: Option<u64>,
    location: &'static Location<'static>,
    run: RunCleanup,
}

enum RunCleanup {
    Call(Call),
    End(Arc<Task>),
}

type Call = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

impl RunCleanup {
    /// Runs the clean-up, or ends the task, and waits for it; returns the message if it panics.
    async fn run_to_end(self) -> Result<(), String> {
        match self {
            Self::Call(call) => {
                let mut future = catch(call)?;
                catch_async(future.as_mut()).await
            }
            Self::End(task) => {
                task.end().await;
                Ok(())
            }
        }
    }

    /// Runs without waiting: a task is ended, a clean-up is polled once.
    fn run_now(self) -> Result<(), Cause> {
        match self {
            Self::Call(_) => match pin!(self.run_to_end()).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(ended) => ended.map_err(Cause::Panicked),
                Poll::Pending => Err(Cause::Failed(
                    "the bus was dropped without a close and there is no runtime to wait for this clean-up: \
                     it was left unfinished; close the bus before dropping it"
                        .into(),
                )),
            },
            Self::End(task) => {
                task.end_soon();
                Ok(())
            }
        }
    }
}

impl ScopeInner {
    pub(crate) fn new(bus: &Bus, source: Source) -> Self {
        Self {
            id: bus.next_id(),
            bus: Arc::downgrade(&bus.inner),
            source,
            plugin: None,
            install_committed: AtomicBool::new(true),
            cleanups: Mutex::default(),
            closed: AtomicBool::new(false),
            sequence: bus.inner.sequence.clone(),
            reporter: bus.inner.reporter.clone(),
        }
    }

    /// Creates the scope of a plugin that is being installed at `at`.
    pub(crate) fn of_plugin(bus: &Bus, source: Source, at: &'static Location<'static>) -> Self {
        Self { plugin: Some(at), install_committed: AtomicBool::new(false), ..Self::new(bus, source) }
    }

    /// Completes the installation of a plugin: its registrations replace the tombstones of a reload.
    pub(super) fn commit_install(&self) {
        let Some(bus) = self.bus.upgrade() else { return };
        bus.write_table(|table| {
            self.install_committed.store(true, Ordering::Release);
            table.replace_tombstones(self.id);
        });
    }

    pub(super) fn is_install_committed(&self) -> bool {
        self.install_committed.load(Ordering::Acquire)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn mark_closed(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Returns the location of the owning plugin's installation, as long as the scope is open.
    pub(crate) fn installed_at(&self) -> Option<&'static Location<'static>> {
        if self.is_closed() { None } else { self.plugin }
    }

    /// Closes a scope that was created on a closed bus, so that it rejects registrations.
    pub(crate) fn reject_registrations(&self) {
        self.mark_closed();
        self.cleanups().done = true;
    }

    pub(crate) async fn close(&self) {
        self.remove();
        while let Some(cleanup) = self.next_cleanup() {
            self.run(cleanup).await;
        }
        self.finish();
    }

    /// Closes without waiting.
    pub(super) fn close_now(&self) {
        self.remove();
        while let Some(Cleanup { location, run, .. }) = self.next_cleanup() {
            if let Err(cause) = run.run_now() {
                self.report(location, cause);
            }
        }
        self.finish();
    }

    /// Takes the newest clean-up; if none is left, marks the scope as done, so that later ones are rejected.
    fn next_cleanup(&self) -> Option<Cleanup> {
        let mut cleanups = self.cleanups();
        let next = cleanups.pending.pop();
        cleanups.done = next.is_none();
        next
    }

    /// Removes the scope, which has no clean-ups left, from the bus.
    pub(super) fn finish(&self) {
        self.cleanups().done = true;
        if let Some(inner) = self.bus.upgrade() {
            Bus { inner }.scopes().retain(|scope| scope.id != self.id);
        }
    }

    pub(super) fn remove(&self) {
        self.mark_closed();
        let Some(bus) = self.bus.upgrade() else { return };
        bus.write_table(|table| table.remove_scope(self.id));
        bus.items.remove_scope(self.id, &self.reporter);
        bus.services.remove_scope(self.id, &self.reporter);
    }

    /// Removes a new registration if another thread closed the scope in the meantime.
    pub(super) fn undo_if_closed(&self) {
        if self.is_closed() {
            self.remove();
        }
    }

    fn cleanups(&self) -> MutexGuard<'_, Cleanups> {
        lock(&self.cleanups)
    }

    pub(super) fn has_no_cleanups(&self) -> bool {
        self.cleanups().pending.is_empty()
    }

    /// Removes the clean-up `id`, so that it will not run; returns its task, if any, for the caller to end.
    pub(super) fn withdraw_cleanup(&self, id: u64) -> Option<Arc<Task>> {
        let mut cleanups = self.cleanups();
        let at = cleanups.pending.iter().position(|cleanup| cleanup.id == id)?;
        let Cleanup { run, .. } = cleanups.pending.remove(at);
        drop(cleanups);
        match run {
            RunCleanup::Call(_) => None,
            RunCleanup::End(task) => Some(task),
        }
    }

    /// Returns the number of tasks that have not ended.
    pub(super) fn task_count(&self) -> usize {
        self.cleanups().pending.iter().filter(|cleanup| matches!(cleanup.run, RunCleanup::End(_))).count()
    }

    /// Ends all tasks without waiting for them.
    pub(super) fn end_tasks(&self) {
        let is_task = |cleanup: &mut Cleanup| matches!(cleanup.run, RunCleanup::End(_));
        let tasks: Vec<_> = self.cleanups().pending.extract_if(.., is_task).collect();
        for Cleanup { run, .. } in tasks.into_iter().rev() {
            // Ending a task cannot fail.
            let _ = run.run_now();
        }
    }

    /// Runs the clean-ups attached to the registration `id`, newest first.
    pub(super) async fn run_attached(&self, id: u64) {
        loop {
            let next = {
                let mut cleanups = self.cleanups();
                let at = cleanups.pending.iter().rposition(|cleanup| cleanup.of == Some(id));
                at.map(|at| cleanups.pending.remove(at))
            };
            match next {
                Some(cleanup) => self.run(cleanup).await,
                None => return,
            }
        }
    }

    /// Adds a clean-up and returns its id; `None` if the scope is done and the clean-up was started at once.
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
        let id = self.sequence.next();
        let run = RunCleanup::Call(Box::new(move || Box::pin(cleanup())));
        self.push(Cleanup { id, of, location, run }).map_or(Some(id), |late| {
            self.run_late(late);
            None
        })
    }

    /// Adds a task that ends with this scope; `None` if the scope has run its clean-ups already.
    pub(super) fn add_task(
        self: &Arc<Self>,
        location: &'static Location<'static>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Option<(u64, Arc<Task>)> {
        let id = self.sequence.next();
        let (reporter, source) = (self.reporter.clone(), self.source.clone());
        let on_panic = move |message| {
            let (source, cause) = (source.clone(), Cause::Panicked(message));
            reporter.report(&HookError { event: "scope:spawn", source, location, cause });
        };
        let scope = Arc::downgrade(self);
        let on_end = move || {
            if let Some(scope) = scope.upgrade() {
                let _ = scope.withdraw_cleanup(id);
            }
        };
        let task = Task::new(work, on_panic, on_end);
        let run = RunCleanup::End(task.clone());
        let late = self.push(Cleanup { id, of: None, location, run });
        late.is_none().then_some((id, task))
    }

    /// Keeps `cleanup` for the close; returns it if the scope is done already.
    fn push(&self, cleanup: Cleanup) -> Option<Cleanup> {
        let mut cleanups = self.cleanups();
        if cleanups.done {
            return Some(cleanup);
        }
        cleanups.pending.push(cleanup);
        None
    }

    /// Runs a clean-up that was added after the close; dropping it instead would leak a resource.
    fn run_late(&self, cleanup: Cleanup) {
        let Cleanup { location, run, .. } = cleanup;
        let (reporter, source) = (self.reporter.clone(), self.source.clone());
        let error = move |cause| HookError { event: "scope:close", source: source.clone(), location, cause };
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move {
                    if let Err(message) = run.run_to_end().await {
                        reporter.report(&error(Cause::Panicked(message)));
                    }
                });
            }
            Err(_) => reporter.report(&error(Cause::Failed(
                "the scope is closed and there is no runtime to run this clean-up on: it did not run".into(),
            ))),
        }
    }

    async fn run(&self, cleanup: Cleanup) {
        let Cleanup { location, run, .. } = cleanup;
        if let Err(message) = run.run_to_end().await {
            self.report(location, Cause::Panicked(message));
        }
    }

    fn report(&self, location: &'static Location<'static>, cause: Cause) {
        let source = self.source.clone();
        self.reporter.report(&HookError { event: "scope:close", source, location, cause });
    }
}
