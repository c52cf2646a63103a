use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Answer, AsyncHook, AsyncHookWith, BoxError, Cx, Event, Handler, IntoReply};

/// Type-erasable handler of `E`: stored in the table as `dyn Any`, and downcast by the emission.
pub(crate) enum Runner<E: Event> {
    /// A handler that answers synchronously.
    Sync(Box<dyn SyncRunner<E>>),
    /// A handler that answers with a future, which borrows the event.
    Async(Box<dyn AsyncRunner<E>>),
}

pub(crate) trait SyncRunner<E: Event>: Send + Sync {
    fn answer(&self, event: &E, cx: &Cx) -> Answer<E>;
}

pub(crate) trait AsyncRunner<E: Event>: Send + Sync {
    fn start<'a>(&'a self, event: &'a E, cx: &'a Cx) -> AnswerFuture<'a, E>;
}

pub(crate) type AnswerFuture<'a, E> = HandlerFuture<'a, <E as Event>::Reply>;

/// Future of a handler's answer, by the type of the reply.
pub(crate) type HandlerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<Option<T>, BoxError>> + Send + 'a>>;

impl<E: Event> Runner<E> {
    pub(crate) fn of_struct<H: Handler<E>>(handler: Arc<H>) -> Self {
        Self::Async(Box::new(OfStruct(handler)))
    }

    pub(crate) fn of_sync<F, R>(f: F) -> Self
    where
        F: Fn(&E, &Cx) -> R + Send + Sync + 'static,
        R: IntoReply<E> + 'static,
    {
        Self::Sync(Box::new(OfSync(move |event: &E, cx: &Cx| f(event, cx).into_answer())))
    }

    pub(crate) fn of_async<F: for<'a> AsyncHook<'a, E>>(f: F) -> Self {
        Self::Async(Box::new(OfAsync(f)))
    }

    pub(crate) fn of_async_with<S, F>(state: S, f: F) -> Self
    where
        S: Send + Sync + 'static,
        F: for<'a> AsyncHookWith<'a, S, E>,
    {
        Self::Async(Box::new(OfAsyncWith(state, f)))
    }
}

struct OfSync<F>(F);

impl<E, F> SyncRunner<E> for OfSync<F>
where
    E: Event,
    F: Fn(&E, &Cx) -> Answer<E> + Send + Sync,
{
    fn answer(&self, event: &E, cx: &Cx) -> Answer<E> {
        (self.0)(event, cx)
    }
}

struct OfStruct<H>(Arc<H>);

impl<E: Event, H: Handler<E>> AsyncRunner<E> for OfStruct<H> {
    fn start<'a>(&'a self, event: &'a E, cx: &'a Cx) -> AnswerFuture<'a, E> {
        Box::pin(self.0.call(event, cx))
    }
}

struct OfAsync<F>(F);

impl<E, F> AsyncRunner<E> for OfAsync<F>
where
    E: Event,
    F: for<'a> AsyncHook<'a, E>,
{
    fn start<'a>(&'a self, event: &'a E, cx: &'a Cx) -> AnswerFuture<'a, E> {
        let call = self.0.start(event, cx);
        Box::pin(async move { call.await.into_answer() })
    }
}

struct OfAsyncWith<S, F>(S, F);

impl<S, E, F> AsyncRunner<E> for OfAsyncWith<S, F>
where
    S: Send + Sync + 'static,
    E: Event,
    F: for<'a> AsyncHookWith<'a, S, E>,
{
    fn start<'a>(&'a self, event: &'a E, cx: &'a Cx) -> AnswerFuture<'a, E> {
        let call = self.1.start(&self.0, event, cx);
        Box::pin(async move { call.await.into_answer() })
    }
}
