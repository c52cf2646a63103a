use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use super::{Answer, AsyncHook, AsyncHookWith, Cx, Event, Handler, IntoReply};

/// A handler of `E` behind one pointer; what the table stores and the emit downcasts to.
pub(super) enum Runner<E: Event> {
    /// Answers at once.
    Now(Box<dyn AnswerNow<E>>),
    /// Answers with a future that borrows the event.
    Later(Box<dyn AnswerLater<E>>),
}

pub(super) trait AnswerNow<E: Event>: Send + Sync {
    fn answer(&self, event: &E, cx: &Cx) -> Answer<E>;
}

pub(super) trait AnswerLater<E: Event>: Send + Sync {
    fn start<'a>(&'a self, event: &'a E, cx: &'a Cx) -> Pending<'a, E>;
}

pub(super) type Pending<'a, E> = Pin<Box<dyn Future<Output = Answer<E>> + Send + 'a>>;

impl<E: Event> Runner<E> {
    pub(super) fn of_struct<H: Handler<E>>(handler: Arc<H>) -> Self {
        Self::Later(Box::new(OfStruct(handler)))
    }

    pub(super) fn of_sync<F, R>(f: F) -> Self
    where
        F: Fn(&E, &Cx) -> R + Send + Sync + 'static,
        R: IntoReply<E> + 'static,
    {
        Self::Now(Box::new(OfSync(move |event: &E, cx: &Cx| f(event, cx).into_answer())))
    }

    pub(super) fn of_async<F: for<'a> AsyncHook<'a, E>>(f: F) -> Self {
        Self::Later(Box::new(OfAsync(f)))
    }

    pub(super) fn of_async_with<S, F>(state: S, f: F) -> Self
    where
        S: Send + Sync + 'static,
        F: for<'a> AsyncHookWith<'a, S, E>,
    {
        Self::Later(Box::new(OfAsyncWith(state, f)))
    }
}

struct OfSync<F>(F);

impl<E, F> AnswerNow<E> for OfSync<F>
where
    E: Event,
    F: Fn(&E, &Cx) -> Answer<E> + Send + Sync,
{
    fn answer(&self, event: &E, cx: &Cx) -> Answer<E> {
        (self.0)(event, cx)
    }
}

struct OfStruct<H>(Arc<H>);

impl<E: Event, H: Handler<E>> AnswerLater<E> for OfStruct<H> {
    fn start<'a>(&'a self, event: &'a E, cx: &'a Cx) -> Pending<'a, E> {
        Box::pin(self.0.call(event, cx))
    }
}

struct OfAsync<F>(F);

impl<E, F> AnswerLater<E> for OfAsync<F>
where
    E: Event,
    F: for<'a> AsyncHook<'a, E>,
{
    fn start<'a>(&'a self, event: &'a E, cx: &'a Cx) -> Pending<'a, E> {
        let call = self.0.start(event, cx);
        Box::pin(async move { call.await.into_answer() })
    }
}

struct OfAsyncWith<S, F>(S, F);

impl<S, E, F> AnswerLater<E> for OfAsyncWith<S, F>
where
    S: Send + Sync + 'static,
    E: Event,
    F: for<'a> AsyncHookWith<'a, S, E>,
{
    fn start<'a>(&'a self, event: &'a E, cx: &'a Cx) -> Pending<'a, E> {
        let call = self.1.start(&self.0, event, cx);
        Box::pin(async move { call.await.into_answer() })
    }
}

/// Runs `f`, turning a panic into its message.
pub(super) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| panic_message(&*payload))
}

/// Awaits `future`, turning a panic in any of its polls into its message.
pub(super) async fn catch_async<T>(
    mut future: Pin<&mut (dyn Future<Output = T> + Send)>,
) -> Result<T, String> {
    std::future::poll_fn(|task| match catch(|| future.as_mut().poll(task)) {
        Ok(poll) => poll.map(Ok),
        Err(message) => std::task::Poll::Ready(Err(message)),
    })
    .await
}

#[cold]
fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
