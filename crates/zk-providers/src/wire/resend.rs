//! One more attempt at a request, another way: where a provider says no to what was sent, or nothing at all.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use zk_core::events::ProviderRetry;
use zk_core::kernel::Cx;
use zk_core::model::{ModelRef, ProviderError};
use zk_core::service::{EventStream, RetryNotice, StreamEvent};

/// What is done about an error: why, in words, and the other attempt.
pub(crate) type Again = (String, EventStream);

struct State<F> {
    running: EventStream,
    again: Option<F>,
    model: ModelRef,
    cx: Cx,
}

/// The stream `first`, and in the place of an error of it the attempt that `again` makes because of it. It is for
/// `again` to take no error that may come behind a part of an answer.
pub(crate) fn retry_once<F>(first: EventStream, again: F, model: ModelRef, cx: &Cx) -> EventStream
where
    F: FnOnce(&ProviderError) -> Option<Again> + Send + 'static,
{
    let state = State { running: first, again: Some(again), model, cx: cx.clone() };
    Box::pin(stream::unfold(state, |mut state| async move {
        let error = match state.running.next().await? {
            Ok(event) => return Some((Ok(event), state)),
            Err(error) => error,
        };
        let Some((why, running)) = state.again.take().and_then(|again| again(&error)) else {
            return Some((Err(error), state));
        };
        let retry = notice(&error, why);
        let (model, told) = (state.model.clone(), retry.clone());
        // A listener that fails does not stop the next attempt.
        let _ = state.cx.emit_with(|| ProviderRetry { model, retry: told }).await;
        state.running = running;
        Some((Ok(StreamEvent::Retry(retry)), state))
    }))
}

fn notice(error: &ProviderError, message: String) -> RetryNotice {
    RetryNotice { attempt: 1, max_attempts: 2, delay: Duration::ZERO, kind: error.kind, message }
}
