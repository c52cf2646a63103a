//! Panics of handlers, decorators, watchers, clean-ups and tasks as messages.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

/// Runs `f`, turning a panic into its message.
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| panic_message(&*payload))
}

/// Awaits `future`, turning a panic in any of its polls into its message.
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
