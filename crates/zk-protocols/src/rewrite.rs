//! Answers whose events are rewritten on their way from a provider to the loop.

use futures_util::{StreamExt, stream};
use zk_core::service::{EventStream, StreamEvent};

/// Changes the events of one answer.
pub(crate) trait RewriteAnswer: Send {
    /// Adds the events that take the place of `event`.
    fn push(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>);

    /// Adds the held-back events of an answer that broke off.
    fn break_off(&mut self, out: &mut Vec<StreamEvent>);
}

/// Returns the stream with its events rewritten.
pub(crate) fn rewritten(answer: EventStream, mut rewriter: Box<dyn RewriteAnswer>) -> EventStream {
    Box::pin(answer.flat_map(move |event| {
        let mut out = Vec::new();
        let error = match event {
            Ok(event) => {
                rewriter.push(event, &mut out);
                None
            }
            Err(error) => {
                rewriter.break_off(&mut out);
                Some(error)
            }
        };
        stream::iter(out.into_iter().map(Ok).chain(error.map(Err)))
    }))
}
