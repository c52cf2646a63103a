use std::future::Future;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::erase::{Runner, Step, catch, catch_async};
use super::table::Entry;
use super::{AnyEvent, BoxError, Cause, Cx, EmitError, Event, HookError, Mode, Notify, OnError, Outcome};

impl Cx {
    /// Announces `event`: observers see it as it is, then the handlers answer one after the other, and the
    /// event's mode makes the outcome.
    ///
    /// # Errors
    /// [`EmitError::Hook`] when a handler fails and the event's policy is to throw: at a gate that means
    /// *refused*. [`EmitError::Cancelled`] when the run is stopped first (unless the event is one of those
    /// that close a run).
    pub async fn emit<E: Event>(&self, mut event: E) -> Result<Outcome<E>, EmitError> {
        let plan = self.bus().plan::<E>();
        for observer in plan.observers.iter().flat_map(|all| all.iter()) {
            if let Err(message) = catch(|| observer.run.see(&event as &dyn AnyEvent, self)) {
                self.bus().inner.report(&HookError {
                    event: E::NAME,
                    source: observer.source.clone(),
                    location: observer.location,
                    cause: Cause::Panicked(message),
                });
            }
        }
        let mut acc = <E::Mode as Mode<E>>::Acc::default();
        if let Some(handlers) = plan.handlers {
            let cancelled = || E::CANCELLABLE && self.is_stopped();
            if cancelled() {
                return Err(EmitError::Cancelled { event: E::NAME });
            }
            for entry in handlers.iter() {
                let (answer, waited) = self.ask(entry, &event).await;
                match answer {
                    Ok(Some(reply)) => {
                        if let ControlFlow::Break(()) =
                            E::Mode::absorb(&mut event, &mut acc, reply, &entry.source)
                        {
                            break;
                        }
                    }
                    Ok(None) => {}
                    Err(Unanswered::Cancelled) => return Err(EmitError::Cancelled { event: E::NAME }),
                    Err(Unanswered::Failed(cause)) => {
                        let error = HookError {
                            event: E::NAME,
                            source: entry.source.clone(),
                            location: entry.location,
                            cause,
                        };
                        match self.policy::<E>() {
                            OnError::Throw => return Err(EmitError::Hook(error)),
                            OnError::Continue | OnError::Inherit => self.bus().inner.report(&error),
                        }
                    }
                }
                if waited && cancelled() {
                    return Err(EmitError::Cancelled { event: E::NAME });
                }
            }
        }
        Ok(E::Mode::finish(event, acc))
    }

    /// As [`Cx::emit`] for events nobody can answer, building the event only if somebody listens.
    ///
    /// # Errors
    /// As [`Cx::emit`].
    pub async fn emit_with<E>(&self, make: impl FnOnce() -> E + Send) -> Result<(), EmitError>
    where
        E: Event<Reply = (), Mode = Notify>,
    {
        if !self.bus().listens::<E>() {
            return Ok(());
        }
        self.emit(make()).await
    }

    fn policy<E: Event>(&self) -> OnError {
        match E::ON_ERROR {
            OnError::Inherit => self.bus().inner.policy,
            chosen @ (OnError::Continue | OnError::Throw) => chosen,
        }
    }

    /// Calls one handler. The flag says whether it was awaited, so the stop token is worth another look.
    async fn ask<E: Event>(&self, entry: &Entry, event: &E) -> (Result<Option<E::Reply>, Unanswered>, bool) {
        let Some(run) = &entry.run else {
            return (Err(Unanswered::Failed(Cause::Removed)), false);
        };
        let Some(runner) = run.downcast_ref::<Runner<E>>() else {
            return (Err(Unanswered::Failed(Cause::Removed)), false);
        };
        match catch(|| runner.0.invoke(event, self)) {
            Err(message) => (Err(Unanswered::Failed(Cause::Panicked(message))), false),
            Ok(Step::Done(answer)) => (answer.map_err(Unanswered::from), false),
            Ok(Step::Later(mut future)) => {
                let limit = entry.time_limit.or(E::TIME_LIMIT);
                (self.drive(future.as_mut(), limit, E::CANCELLABLE).await, true)
            }
        }
    }

    async fn drive<T>(
        &self,
        future: Pin<&mut (dyn Future<Output = Result<T, BoxError>> + Send)>,
        limit: Option<Duration>,
        cancellable: bool,
    ) -> Result<T, Unanswered> {
        let mut call = pin!(catch_async(future));
        // Most handlers are ready at once; only one that waits pays for a timer and a cancel listener.
        let first = std::future::poll_fn(|task| Poll::Ready(call.as_mut().poll(task))).await;
        let ended = match first {
            Poll::Ready(ended) => ended,
            Poll::Pending => {
                let mut limited = pin!(async {
                    match limit {
                        None => Ok(call.await),
                        Some(limit) => tokio::time::timeout(limit, call)
                            .await
                            .map_err(|_| Unanswered::Failed(Cause::TimedOut(limit))),
                    }
                });
                // A runtime without timers panics at the timeout: that is a failed handler too.
                let guarded = pin!(catch_async(limited.as_mut()));
                let ended = if cancellable {
                    match select(guarded, pin!(self.stop_token().cancelled())).await {
                        Either::Left((ended, _)) => ended,
                        Either::Right(_) => return Err(Unanswered::Cancelled),
                    }
                } else {
                    guarded.await
                };
                ended.unwrap_or_else(|message| Ok(Err(message)))?
            }
        };
        match ended {
            Ok(answer) => answer.map_err(Unanswered::from),
            Err(message) => Err(Unanswered::Failed(Cause::Panicked(message))),
        }
    }
}

enum Unanswered {
    Failed(Cause),
    Cancelled,
}

impl From<BoxError> for Unanswered {
    fn from(error: BoxError) -> Self {
        Self::Failed(Cause::Failed(error))
    }
}

/// Every future of the kernel can be spawned; a lazily merged list of handlers would break this, and only in
/// code that depends on the kernel.
#[cfg(test)]
#[expect(dead_code, reason = "compiling it is the test")]
fn assert_send<E: Event>(cx: &Cx, event: E, bus: &super::Bus, scope: &super::Scope) {
    fn send<T: Send>(_: T) {}
    send(cx.emit(event));
    send(bus.close());
    send(scope.close());
}
