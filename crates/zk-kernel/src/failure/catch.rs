//! Catches panics of handlers, decorators, watchers, clean-ups and tasks, and returns their messages.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

/// Runs `f`; returns the message if it panics.
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| panic_message(&*payload))
}

/// Awaits `future`; returns the message if any poll of it panics.
pub(crate) async fn catch_async<T>(
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
