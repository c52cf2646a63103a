use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::erase::{AnswerLater, Runner, catch, catch_async};
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
        let Some(handlers) = plan.handlers else { return Ok(E::Mode::finish(event, acc)) };
        let stopped = || E::CANCELLABLE && self.is_stopped();
        let cancelled = || EmitError::Cancelled { event: E::NAME };
        if stopped() {
            return Err(cancelled());
        }
        let mut next = 0;
        loop {
            match self.ask_until_one_waits(&handlers, &mut next, &mut event, &mut acc)? {
                Asked::All => break,
                Asked::UpTo(entry, runner) => {
                    let (answer, waited) = match self.ask(entry, runner, &event).await {
                        Ok(answered) => answered,
                        Err(Unanswered::Cancelled) => return Err(cancelled()),
                        Err(Unanswered::Failed(cause)) => {
                            self.failed::<E>(entry, cause)?;
                            (None, true)
                        }
                    };
                    if let Some(reply) = answer
                        && E::Mode::absorb(&mut event, &mut acc, reply, &entry.source).is_break()
                    {
                        break;
                    }
                    if waited && stopped() {
                        return Err(cancelled());
                    }
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

    /// Asks the handlers from `next` on, up to the first that answers with a future. It is a plain function so
    /// that handlers which answer at once cost what a call costs.
    fn ask_until_one_waits<'a, E: Event>(
        &self,
        handlers: &'a [Entry],
        next: &mut usize,
        event: &mut E,
        acc: &mut <E::Mode as Mode<E>>::Acc,
    ) -> Result<Asked<'a, E>, EmitError> {
        loop {
            match catch(|| self.first_word(handlers, next, event)) {
                Ok(Word::Nobody) => return Ok(Asked::All),
                Ok(Word::Waits(entry, handler)) => return Ok(Asked::UpTo(entry, handler)),
                Ok(Word::Says(entry, Ok(reply))) => {
                    if E::Mode::absorb(event, acc, reply, &entry.source).is_break() {
                        return Ok(Asked::All);
                    }
                }
                Ok(Word::Says(entry, Err(cause))) => self.failed::<E>(entry, cause)?,
                Err(message) => {
                    // The one that was being asked.
                    if let Some(entry) = next.checked_sub(1).and_then(|at| handlers.get(at)) {
                        self.failed::<E>(entry, Cause::Panicked(message))?;
                    }
                }
            }
        }
    }

    /// Asks the handlers from `next` on, up to the first that has something to say.
    fn first_word<'a, E: Event>(&self, handlers: &'a [Entry], next: &mut usize, event: &E) -> Word<'a, E> {
        for entry in handlers.get(*next..).unwrap_or_default() {
            *next += 1;
            let Some(runner) = entry.run.as_ref().and_then(|run| run.downcast_ref::<Runner<E>>()) else {
                return Word::Says(entry, Err(Cause::Removed));
            };
            match runner {
                Runner::Now(handler) => match handler.answer(event, self) {
                    Ok(None) => {}
                    Ok(Some(reply)) => return Word::Says(entry, Ok(reply)),
                    Err(error) => return Word::Says(entry, Err(Cause::Failed(error))),
                },
                Runner::Later(handler) => return Word::Waits(entry, &**handler),
            }
        }
        Word::Nobody
    }

    /// A handler gave no answer: the emit ends or it is reported, as the policy says.
    #[cold]
    fn failed<E: Event>(&self, entry: &Entry, cause: Cause) -> Result<(), EmitError> {
        let (source, location) = (entry.source.clone(), entry.location);
        let error = HookError { event: E::NAME, source, location, cause };
        let policy = match E::ON_ERROR {
            OnError::Inherit => self.bus().inner.policy,
            chosen @ (OnError::Continue | OnError::Throw) => chosen,
        };
        match policy {
            OnError::Throw => Err(EmitError::Hook(error)),
            OnError::Continue | OnError::Inherit => {
                self.bus().inner.report(&error);
                Ok(())
            }
        }
    }

    /// Asks one handler that answers with a future. The flag says whether it was waited for, so that the stop
    /// token is worth another look.
    async fn ask<E: Event>(
        &self,
        entry: &Entry,
        handler: &dyn AnswerLater<E>,
        event: &E,
    ) -> Result<(Option<E::Reply>, bool), Unanswered> {
        let mut future = catch(|| handler.start(event, self))?;
        // Most handlers are ready at once; only one that waits pays for a timer and a cancel listener.
        let first = poll_fn(|task| Poll::Ready(catch(|| future.as_mut().poll(task)))).await?;
        match first {
            Poll::Ready(answer) => Ok((answer?, false)),
            Poll::Pending => {
                let limit = entry.time_limit.or(E::TIME_LIMIT);
                // Boxed, so that the emits that never wait stay small.
                let answer = Box::pin(self.wait(future.as_mut(), limit, E::CANCELLABLE)).await?;
                Ok((answer?, true))
            }
        }
    }

    async fn wait<T>(
        &self,
        future: Pin<&mut (dyn Future<Output = T> + Send)>,
        limit: Option<Duration>,
        cancellable: bool,
    ) -> Result<T, Unanswered> {
        let mut limited = pin!(async {
            match limit {
                None => Ok(future.await),
                Some(limit) => tokio::time::timeout(limit, future).await.map_err(|_| Cause::TimedOut(limit)),
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
        ended?.map_err(Unanswered::Failed)
    }
}

/// How far the handlers were asked.
enum Asked<'a, E: Event> {
    /// Nobody is left, or the answer is settled.
    All,
    /// This one answers with a future.
    UpTo(&'a Entry, &'a dyn AnswerLater<E>),
}

/// What handlers that are asked one after the other come to.
enum Word<'a, E: Event> {
    /// They have nothing to say.
    Nobody,
    /// This one answers, or fails to.
    Says(&'a Entry, Result<E::Reply, Cause>),
    /// This one answers with a future.
    Waits(&'a Entry, &'a dyn AnswerLater<E>),
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

/// The message of a panic.
impl From<String> for Unanswered {
    fn from(message: String) -> Self {
        Self::Failed(Cause::Panicked(message))
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
