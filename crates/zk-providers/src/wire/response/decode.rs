//! Interface of a decoder, which converts the events of a response to stream events.

use std::collections::VecDeque;

use zk_core::model::ErrorKind;
use zk_core::service::StreamEvent;

use crate::wire::error::WireError;
use crate::wire::response::limits::Meter;
use crate::wire::response::mend::mend;
use crate::wire::response::sse::SseEvent;

/// Framing of a response: the way its bytes are split into events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    #[default]
    Sse,
    /// One JSON value per line; the events have no names.
    JsonLines,
}

/// Decoder of one response of a dialect, event by event.
pub trait Decode: Send + Sync + 'static {
    /// Decodes one event of the response into any number of stream events.
    ///
    /// # Errors
    /// [`WireError`] when the event reports a failure or cannot be parsed. The stream ends then.
    fn event(&mut self, event: SseEvent<'_>, out: &mut VecDeque<StreamEvent>) -> Result<(), WireError>;

    /// Ends the decoding after the last byte, or after no more came following [`Decode::is_complete`].
    ///
    /// # Errors
    /// [`WireError::ended_early`] when the response broke off, so that it never looks like a short success.
    fn end(&mut self, out: &mut VecDeque<StreamEvent>) -> Result<(), WireError>;

    /// Whether the answer is complete, and only the end mark of the response is missing.
    fn is_complete(&self) -> bool;

    /// Whether a truncated last event can be ignored, because it cannot contain a part of the answer.
    fn is_complete_without_end_event(&self) -> bool {
        false
    }

    /// Returns the framing of the response's bytes.
    fn framing(&self) -> Framing {
        Framing::Sse
    }
}

/// Decodes one event and counts its content. With `is_last`, the bytes have ended and the event may be
/// truncated.
pub(crate) fn decode_event(
    decoder: &mut dyn Decode,
    event: SseEvent<'_>,
    is_last: bool,
    meter: &mut Meter,
    out: &mut VecDeque<StreamEvent>,
) -> Result<(), WireError> {
    let before = out.len();
    let mended = mend(event.data);
    let event = SseEvent { data: mended.as_deref().unwrap_or(event.data), ..event };
    match decoder.event(event, out) {
        Err(error) if is_last && error.kind == ErrorKind::Malformed => {
            if !decoder.is_complete_without_end_event() {
                return Err(error.retryable());
            }
        }
        result => result?,
    }
    let counted = meter.count(event.data.len(), out.iter().skip(before));
    if counted.is_err() {
        // Events beyond the limit are dropped.
        out.truncate(before);
    }
    counted
}
