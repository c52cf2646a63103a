//! The contract of a decoder: from the events of a response to the events of a stream.

use std::collections::VecDeque;

use zk_core::model::ErrorKind;
use zk_core::service::StreamEvent;

use crate::wire::error::WireError;
use crate::wire::response::limits::Meter;
use crate::wire::response::mend::mend;
use crate::wire::response::sse::SseEvent;

/// Framing of a response: how its bytes are cut into events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    #[default]
    Sse,
    /// One JSON value on each line; the events have no names.
    JsonLines,
}

/// Reads one response of a dialect, event by event.
pub trait Decode: Send + Sync + 'static {
    /// Decodes one event of the response into any number of events of the stream.
    ///
    /// # Errors
    /// [`WireError`] when the event says that something failed, or cannot be read. It ends the stream.
    fn event(&mut self, event: SseEvent<'_>, out: &mut VecDeque<StreamEvent>) -> Result<(), WireError>;

    /// Ends the decoding: no more bytes come, or they stopped coming after [`Decode::is_complete`].
    ///
    /// # Errors
    /// [`WireError::ended_early`] when the response broke off: there is no short success.
    fn end(&mut self, out: &mut VecDeque<StreamEvent>) -> Result<(), WireError>;

    /// Whether all of the answer is there, and nothing but the end mark of the response is missing.
    fn is_complete(&self) -> bool;

    /// Whether a last event that was cut off can be missed, because nothing of the answer can be in it.
    fn is_complete_without_end_event(&self) -> bool {
        false
    }

    /// Returns the framing of the response's bytes.
    fn framing(&self) -> Framing {
        Framing::Sse
    }
}

/// Decodes one event, and counts what comes of it. With `is_last`, the bytes have ended and the event may be half of
/// one.
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
                return Err(error.passing());
            }
        }
        result => result?,
    }
    let counted = meter.count(event.data.len(), out.iter().skip(before));
    if counted.is_err() {
        // Events over the limit are for nobody.
        out.truncate(before);
    }
    counted
}
