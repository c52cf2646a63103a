use std::future::Future;
use std::mem::replace;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, Id, try_id};
use tokio_util::sync::CancellationToken;

use crate::failure::catch::catch;
use crate::lock::lock;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Background task of a scope.
///
/// The task's future is kept here, and a tokio task only polls it. So a close drops the future itself: at
/// once, from any thread, and even without a runtime.
pub(crate) struct Task {
    state: Mutex<State>,
    /// Token that is cancelled once the future has been dropped.
    dropped: CancellationToken,
    poller: OnceLock<AbortHandle>,
    on_panic: Box<dyn Fn(String) + Send + Sync>,
    on_end: Box<dyn Fn() + Send + Sync>,
}

enum State {
    Parked(Work),
    /// A thread polls the future; it drops it after this poll if `end` was set meanwhile.
    Polling {
        by: Option<Id>,
        end: bool,
    },
    Gone,
}

impl Task {
    pub(super) fn new(
        work: impl Future<Output = ()> + Send + 'static,
        on_panic: impl Fn(String) + Send + Sync + 'static,
        on_end: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Parked(Box::pin(work))),
            dropped: CancellationToken::new(),
            poller: OnceLock::new(),
            on_panic: Box::new(on_panic),
            on_end: Box::new(on_end),
        })
    }

    pub(crate) fn start(self: Arc<Self>, runtime: &Handle) {
        let poller = runtime.spawn(Poller(self.clone())).abort_handle();
        let poller = self.poller.get_or_init(|| poller);
        if matches!(*self.state(), State::Gone) {
            poller.abort();
        }
    }

    /// Ends the task and waits until its future is dropped. A task that closes its own scope is not waited
    /// for, since it would wait for itself.
    pub(super) async fn end(&self) {
        if matches!(&*self.state(), State::Polling { by: Some(id), .. } if try_id() == Some(*id)) {
            return;
        }
        self.end_soon();
        self.dropped.cancelled().await;
    }

    /// Ends the task without waiting: at once, or by the thread that is polling it.
    pub(super) fn end_soon(&self) {
        let parked = {
            let mut state = self.state();
            match &mut *state {
                State::Polling { end, .. } => {
                    *end = true;
                    return;
                }
                State::Gone => return,
                State::Parked(_) => replace(&mut *state, State::Gone),
            }
        };
        self.finish(parked);
    }

    fn poll(&self, task: &mut Context<'_>) -> Poll<()> {
        let mut work = {
            let mut state = self.state();
            match replace(&mut *state, State::Polling { by: try_id(), end: false }) {
                State::Parked(work) => work,
                other @ (State::Polling { .. } | State::Gone) => {
                    *state = other;
                    return Poll::Ready(());
                }
            }
        };
        let polled = catch(|| work.as_mut().poll(task));
        let pending = matches!(polled, Ok(Poll::Pending));
        if let Err(message) = polled {
            (self.on_panic)(message);
        }
        {
            let mut state = self.state();
            if pending && !matches!(*state, State::Polling { end: true, .. }) {
                *state = State::Parked(work);
                return Poll::Pending;
            }
            *state = State::Gone;
        }
        self.finish(State::Parked(work));
        Poll::Ready(())
    }

    /// Drops the future after releasing the lock, since its destructors may use this task.
    fn finish(&self, work: State) {
        if let Err(message) = catch(|| drop(work)) {
            (self.on_panic)(message);
        }
        self.dropped.cancel();
        if let Some(poller) = self.poller.get() {
            poller.abort();
        }
        (self.on_end)();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Future that the runtime polls. A runtime that shuts down drops it, which ends the task.
struct Poller(Arc<Task>);

impl Future for Poller {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        self.0.poll(task)
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.0.end_soon();
    }
}
