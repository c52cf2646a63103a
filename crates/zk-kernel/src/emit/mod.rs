pub(crate) mod erase;
mod snapshot;
pub(crate) mod table;

use std::any::TypeId;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use crate::emit::erase::{AsyncRunner, HandlerFuture, Runner};
use crate::emit::table::{HandlerEntry, Observe, Observer};
use crate::failure::catch::{catch, catch_async};
use crate::{
    AnyEvent, BoxError, Cause, Cx, EmitError, Event, EventStamp, HookError, Mode, Notify, OnError, Outcome,
};

impl Cx {
    /// Emits `event`: observers see it unchanged, then the handlers run one after the other, and the event's
    /// mode combines their answers.
    ///
    /// # Errors
    /// [`EmitError::Hook`] when a handler fails and the event's policy is to throw; callers of a gate take it
    /// as *refused*. [`EmitError::Cancelled`] when the run is stopped before, unless the event is one that
    /// closes a run.
    pub async fn emit<E: Event>(&self, mut event: E) -> Result<Outcome<E>, EmitError> {
        let rules = const { &Rules::of::<E>() };
        let snapshot = self.bus().snapshot(TypeId::of::<E>());
        if let Some(observers) = &snapshot.observers {
            self.run_observers(observers, &event);
        }
        let mut acc = <E::Mode as Mode<E>>::Acc::default();
        let Some(handlers) = snapshot.handlers else { return Ok(E::Mode::finish(event, acc)) };
        self.check_stop(rules)?;
        let mut next = 0;
        loop {
            match self.run_sync_handlers(&handlers, &mut next, &mut event, &mut acc)? {
                Progress::Done => break,
                Progress::Async(entry, runner) => {
                    let started = catch(|| runner.start(&event, self));
                    let (answer, waited) = self.run_async_handler(entry, rules, started).await?;
                    if let Some(reply) = answer
                        && E::Mode::absorb(&mut event, &mut acc, reply, &entry.source).is_break()
                    {
                        break;
                    }
                    if waited {
                        self.check_stop(rules)?;
                    }
                }
            }
        }
        Ok(E::Mode::finish(event, acc))
    }

    /// Emits an event without answers like [`Cx::emit`], and builds it only if it has listeners.
    ///
    /// # Errors
    /// The errors of [`Cx::emit`].
    pub async fn emit_with<E>(&self, make: impl FnOnce() -> E + Send) -> Result<(), EmitError>
    where
        E: Event<Reply = (), Mode = Notify>,
    {
        if !self.bus().has_listeners::<E>() {
            return Ok(());
        }
        self.emit(make()).await
    }

    /// Calls the observers with `event`.
    fn run_observers(&self, observers: &[Observer], event: &dyn AnyEvent) {
        let number = self.bus().inner.emitted.next();
        // Read before the first observer, so that a slow observer does not delay the time.
        let at = time_if_wanted(observers, SystemTime::now);
        for observer in observers {
            let run = || match (&observer.run, at) {
                (Observe::Plain(run), _) => run(event, self),
                (Observe::Stamped(run), Some(at)) => run(event, EventStamp { number, at }, self),
                // Unreachable: the time was read if there is a stamped observer.
                (Observe::Stamped(_), None) => {}
            };
            if let Err(message) = catch(run) {
                self.bus().inner.reporter.report(&HookError {
                    event: event.name(),
                    source: observer.source.clone(),
                    location: observer.location,
                    cause: Cause::Panicked(message),
                });
            }
        }
    }

    /// Fails if the run is stopped, unless the event is one that closes a run.
    fn check_stop(&self, rules: &Rules) -> Result<(), EmitError> {
        if rules.cancellable && self.is_stopped() {
            return Err(EmitError::Cancelled { event: rules.name });
        }
        Ok(())
    }

    /// Runs the handlers from index `next` on, up to the first async one. Not an async function, so that a
    /// sync handler costs no more than a call.
    fn run_sync_handlers<'a, E: Event>(
        &self,
        handlers: &'a [HandlerEntry],
        next: &mut usize,
        event: &mut E,
        acc: &mut <E::Mode as Mode<E>>::Acc,
    ) -> Result<Progress<'a, E>, EmitError> {
        loop {
            match catch(|| self.next_sync_step(handlers, next, event)) {
                Ok(SyncStep::Done) => return Ok(Progress::Done),
                Ok(SyncStep::Async(entry, handler)) => return Ok(Progress::Async(entry, handler)),
                Ok(SyncStep::Answered(entry, Ok(reply))) => {
                    if E::Mode::absorb(event, acc, reply, &entry.source).is_break() {
                        return Ok(Progress::Done);
                    }
                }
                Ok(SyncStep::Answered(entry, Err(cause))) => {
                    self.handle_failure(entry, &Rules::of::<E>(), cause)?
                }
                Err(message) => {
                    // `next` is one behind the handler that was running.
                    if let Some(entry) = next.checked_sub(1).and_then(|at| handlers.get(at)) {
                        self.handle_failure(entry, &Rules::of::<E>(), Cause::Panicked(message))?;
                    }
                }
            }
        }
    }

    /// Runs the handlers from index `next` on, up to the first one that answers or is async.
    fn next_sync_step<'a, E: Event>(
        &self,
        handlers: &'a [HandlerEntry],
        next: &mut usize,
        event: &E,
    ) -> SyncStep<'a, E> {
        for entry in handlers.get(*next..).unwrap_or_default() {
            *next += 1;
            let Some(runner) = entry.run.as_ref().and_then(|run| run.downcast_ref::<Runner<E>>()) else {
                return SyncStep::Answered(entry, Err(Cause::Removed));
            };
            match runner {
                Runner::Sync(handler) => match handler.answer(event, self) {
                    Ok(None) => {}
                    Ok(Some(reply)) => return SyncStep::Answered(entry, Ok(reply)),
                    Err(error) => return SyncStep::Answered(entry, Err(Cause::Failed(error))),
                },
                Runner::Async(handler) => return SyncStep::Async(entry, &**handler),
            }
        }
        SyncStep::Done
    }

    /// Reports a handler's failure, or ends the emission with it, by the policy of the event or the bus.
    #[cold]
    fn handle_failure(&self, entry: &HandlerEntry, rules: &Rules, cause: Cause) -> Result<(), EmitError> {
        let (source, location) = (entry.source.clone(), entry.location);
        let error = HookError { event: rules.name, source, location, cause };
        let policy = match rules.on_error {
            OnError::Inherit => self.bus().inner.policy,
            chosen @ (OnError::Continue | OnError::Throw) => chosen,
        };
        match policy {
            OnError::Throw => Err(EmitError::Hook(error)),
            OnError::Continue | OnError::Inherit => {
                self.bus().inner.reporter.report(&error);
                Ok(())
            }
        }
    }

    /// Runs one async handler that was started. The flag says whether it had to wait, after which the stop
    /// token is checked again.
    async fn run_async_handler<T>(
        &self,
        entry: &HandlerEntry,
        rules: &Rules,
        started: Result<HandlerFuture<'_, T>, String>,
    ) -> Result<(Option<T>, bool), EmitError> {
        match self.poll_handler(entry, rules, started).await {
            Ok(answered) => Ok(answered),
            Err(NoAnswer::Cancelled) => Err(EmitError::Cancelled { event: rules.name }),
            Err(NoAnswer::Failed(cause)) => {
                self.handle_failure(entry, rules, cause)?;
                Ok((None, true))
            }
        }
    }

    async fn poll_handler<T>(
        &self,
        entry: &HandlerEntry,
        rules: &Rules,
        started: Result<HandlerFuture<'_, T>, String>,
    ) -> Result<(Option<T>, bool), NoAnswer> {
        let mut future = started?;
        // Most handlers are ready at the first poll; only one that waits needs a timer and a cancel listener.
        let first = poll_fn(|task| Poll::Ready(catch(|| future.as_mut().poll(task)))).await?;
        match first {
            Poll::Ready(answer) => Ok((answer?, false)),
            Poll::Pending => {
                let limit = entry.time_limit.or(rules.time_limit);
                // Boxed, so that emissions that never wait stay small.
                let answer =
                    Box::pin(self.wait_for_answer(future.as_mut(), limit, rules.cancellable)).await?;
                Ok((answer?, true))
            }
        }
    }

    async fn wait_for_answer<T>(
        &self,
        future: Pin<&mut (dyn Future<Output = T> + Send)>,
        limit: Option<Duration>,
        cancellable: bool,
    ) -> Result<T, NoAnswer> {
        let mut limited = pin!(async {
            match limit {
                None => Ok(future.await),
                Some(limit) => tokio::time::timeout(limit, future).await.map_err(|_| Cause::TimedOut(limit)),
            }
        });
        // A runtime without timers panics at the time-out, which counts as a failure of the handler.
        let mut guarded = pin!(catch_async(limited.as_mut()));
        let ended = if cancellable {
            let mut stopped = pin!(self.stop_token().cancelled());
            let ended_or_stopped = poll_fn(|task| match guarded.as_mut().poll(task) {
                Poll::Ready(ended) => Poll::Ready(Ok(ended)),
                Poll::Pending => stopped.as_mut().poll(task).map(|()| Err(NoAnswer::Cancelled)),
            });
            ended_or_stopped.await?
        } else {
            guarded.await
        };
        ended?.map_err(NoAnswer::Failed)
    }
}

/// Reads the clock if any observer needs the time.
fn time_if_wanted(observers: &[Observer], clock: impl FnOnce() -> SystemTime) -> Option<SystemTime> {
    let wants_it = |observer: &Observer| matches!(observer.run, Observe::Stamped(_));
    observers.iter().any(wants_it).then(clock)
}

/// Constants of an event as values, so that code using only them is compiled once instead of per event.
struct Rules {
    name: &'static str,
    on_error: OnError,
    cancellable: bool,
    time_limit: Option<Duration>,
}

impl Rules {
    const fn of<E: Event>() -> Self {
        Self { name: E::NAME, on_error: E::ON_ERROR, cancellable: E::CANCELLABLE, time_limit: E::TIME_LIMIT }
    }
}

/// Progress of an emission up to the point where it has to wait.
enum Progress<'a, E: Event> {
    /// No handler is left, or the outcome is final.
    Done,
    /// The next handler is async.
    Async(&'a HandlerEntry, &'a dyn AsyncRunner<E>),
}

/// Result of running sync handlers up to the first that answers or fails.
enum SyncStep<'a, E: Event> {
    /// No handler is left.
    Done,
    /// The handler answered or failed.
    Answered(&'a HandlerEntry, Result<E::Reply, Cause>),
    /// The next handler is async.
    Async(&'a HandlerEntry, &'a dyn AsyncRunner<E>),
}

/// Reason for which an async handler gave no answer.
enum NoAnswer {
    Failed(Cause),
    Cancelled,
}

impl From<BoxError> for NoAnswer {
    fn from(error: BoxError) -> Self {
        Self::Failed(Cause::Failed(error))
    }
}

/// Converts the message of a panic.
impl From<String> for NoAnswer {
    fn from(message: String) -> Self {
        Self::Failed(Cause::Panicked(message))
    }
}

/// Checks at compile time that every future of the kernel is `Send`. Otherwise the error would appear only in
/// crates that depend on the kernel.
#[cfg(test)]
#[expect(dead_code, reason = "compiling it is the test")]
fn assert_send<E: Event>(cx: &Cx, event: E, bus: &crate::Bus, scope: &crate::Scope) {
    fn send<T: Send>(_: T) {}
    send(cx.emit(event));
    send(bus.close());
    send(scope.close());
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::time_if_wanted;
    use crate::{Bus, Event, Notify, Reach};

    #[derive(serde::Serialize)]
    struct Tick;

    impl Event for Tick {
        const NAME: &'static str = "test:tick";
        type Reply = ();
        type Mode = Notify;
    }

    #[test]
    fn the_clock_is_read_once_for_all_observers_and_only_if_one_is_given_the_time() {
        let parent = Bus::new();
        let bus = parent.child("child");
        let reads = || {
            let mut reads = 0;
            let clock = || {
                reads += 1;
                SystemTime::UNIX_EPOCH
            };
            let observers = bus.snapshot(std::any::TypeId::of::<Tick>()).observers;
            let at = time_if_wanted(observers.as_deref().unwrap_or_default(), clock);
            assert_eq!(at.is_some(), reads == 1);
            reads
        };
        bus.scope("plain").observe(|_, _| {});
        parent.scope("own").observe_stamped(Reach::Own, |_, _, _| {});
        assert_eq!(reads(), 0);
        parent.scope("tree").observe_stamped(Reach::Descendants, |_, _, _| {});
        bus.scope("stamped").observe_stamped(Reach::Own, |_, _, _| {});
        assert_eq!(reads(), 1);
    }
}
