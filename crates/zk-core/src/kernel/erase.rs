use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use super::{Answer, AsyncHook, AsyncHookWith, Cx, Event, Handler, IntoReply};

/// A handler of `E` behind one pointer; what the table stores and the emit downcasts to.
pub(super) struct Runner<E: Event>(pub(super) Box<dyn Invoke<E>>);

/// What calling a handler gives: an answer at once, or a future that borrows the event.
pub(super) enum Step<'a, E: Event> {
    Done(Answer<E>),
    Later(Pin<Box<dyn Future<Output = Answer<E>> + Send + 'a>>),
}

pub(super) trait Invoke<E: Event>: Send + Sync {
    fn invoke<'a>(&'a self, event: &'a E, cx: &'a Cx) -> Step<'a, E>;
}

pub(super) struct OfStruct<H>(pub(super) Arc<H>);

impl<E: Event, H: Handler<E>> Invoke<E> for OfStruct<H> {
    fn invoke<'a>(&'a self, event: &'a E, cx: &'a Cx) -> Step<'a, E> {
        Step::Later(Box::pin(self.0.call(event, cx)))
    }
}

pub(super) struct OfSync<F, R>(pub(super) F, pub(super) PhantomData<fn() -> R>);

impl<E, F, R> Invoke<E> for OfSync<F, R>
where
    E: Event,
    R: IntoReply<E>,
    F: Fn(&E, &Cx) -> R + Send + Sync,
{
    fn invoke<'a>(&'a self, event: &'a E, cx: &'a Cx) -> Step<'a, E> {
        Step::Done((self.0)(event, cx).into_answer())
    }
}

pub(super) struct OfAsync<F>(pub(super) F);

impl<E, F> Invoke<E> for OfAsync<F>
where
    E: Event,
    F: for<'a> AsyncHook<'a, E>,
{
    fn invoke<'a>(&'a self, event: &'a E, cx: &'a Cx) -> Step<'a, E> {
        let call = self.0.start(event, cx);
        Step::Later(Box::pin(async move { call.await.into_answer() }))
    }
}

pub(super) struct OfAsyncWith<S, F>(pub(super) S, pub(super) F);

impl<S, E, F> Invoke<E> for OfAsyncWith<S, F>
where
    S: Send + Sync + 'static,
    E: Event,
    F: for<'a> AsyncHookWith<'a, S, E>,
{
    fn invoke<'a>(&'a self, event: &'a E, cx: &'a Cx) -> Step<'a, E> {
        let call = self.1.start(&self.0, event, cx);
        Step::Later(Box::pin(async move { call.await.into_answer() }))
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

fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
