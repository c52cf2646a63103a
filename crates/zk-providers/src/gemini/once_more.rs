//! One more attempt at a response that says nothing, which these models give now and then.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use zk_core::events::ProviderRetry;
use zk_core::kernel::Cx;
use zk_core::model::{ModelRef, ProviderError};
use zk_core::service::{EventStream, RetryNotice, StreamEvent};

use super::stream::EMPTY;

/// Which attempt it is: the last one takes nothing for an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    Last,
}

struct State<F> {
    running: EventStream,
    again: Option<F>,
    model: ModelRef,
    cx: Cx,
}

/// The stream of the first attempt, or of the second where the first one comes to nothing.
pub(super) fn once_more<F>(attempt: F, model: ModelRef, cx: &Cx) -> EventStream
where
    F: FnOnce(Attempt) -> EventStream + Clone + Send + 'static,
{
    let state =
        State { running: attempt.clone()(Attempt::First), again: Some(attempt), model, cx: cx.clone() };
    Box::pin(stream::unfold(state, |mut state| async move {
        let item = state.running.next().await?;
        match (item, state.again.take()) {
            (Err(error), Some(attempt)) if error.code.as_deref() == Some(EMPTY) => {
                let retry = notice(error);
                let (model, told) = (state.model.clone(), retry.clone());
                // A listener that fails does not stop the next attempt.
                let _ = state.cx.emit_with(|| ProviderRetry { model, retry: told }).await;
                state.running = attempt(Attempt::Last);
                Some((Ok(StreamEvent::Retry(retry)), state))
            }
            (item, again) => {
                state.again = again;
                Some((item, state))
            }
        }
    }))
}

fn notice(error: ProviderError) -> RetryNotice {
    RetryNotice {
        attempt: 1,
        max_attempts: 2,
        delay: Duration::ZERO,
        kind: error.kind,
        message: error.message,
    }
}
