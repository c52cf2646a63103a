use std::collections::VecDeque;
use std::fmt;

use zk_core::model::{ModelRef, Phase, ProviderError};
use zk_core::service::StreamEvent;

use crate::wire::error::{RequestContext, WireError};
use crate::wire::response::decode::{Decode, decode_event};
use crate::wire::response::frames::Frames;
use crate::wire::response::limits::Meter;

/// Reads the bytes of a response without a network: a recorded one, or one a fuzzer made up.
///
/// ```
/// use zk_core::model::ModelRef;
/// use zk_core::service::StreamEvent;
/// use zk_providers::Replay;
///
/// let mut replay = Replay::chat(ModelRef::new("openai_compat", "tiny"));
/// replay.feed(b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n");
/// replay.finish();
/// let mut events = Vec::new();
/// while let Some(event) = replay.next()? {
///     events.push(event);
/// }
/// assert!(matches!(events.last(), Some(StreamEvent::Done { .. })));
/// # Ok::<(), zk_core::model::ProviderError>(())
/// ```
pub struct Replay {
    context: RequestContext,
    frames: Frames,
    meter: Meter,
    decoder: Box<dyn Decode>,
    ready: VecDeque<StreamEvent>,
    /// Failure of the response, behind what came before.
    failed: Option<WireError>,
    /// No more bytes will be fed.
    ended: bool,
    /// The rest of the last event has been handed out too.
    finished: bool,
    over: bool,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("over", &self.over).finish_non_exhaustive()
    }
}

impl Replay {
    /// A response in the dialect that `decoder` reads, as `model` gave it.
    #[must_use]
    pub fn decoding(model: &ModelRef, decoder: impl Decode) -> Self {
        let mut context = RequestContext::new(&model.provider, &model.model);
        context.phase = Phase::Stream;
        Self {
            context,
            frames: Frames::of(decoder.framing()),
            meter: Meter::default(),
            decoder: Box::new(decoder),
            ready: VecDeque::new(),
            failed: None,
            ended: false,
            finished: false,
            over: false,
        }
    }

    /// Takes more bytes of the body.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.frames.feed(bytes);
    }

    /// Says that the body has ended.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// The next event; nothing before more bytes are fed, or after the last one.
    ///
    /// # Errors
    /// [`ProviderError`] as a provider's stream would end with; nothing comes after it.
    #[expect(clippy::should_implement_trait, reason = "nothing now does not mean that nothing comes")]
    pub fn next(&mut self) -> Result<Option<StreamEvent>, ProviderError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.over |= matches!(event, StreamEvent::Done { .. });
                return Ok(Some(event));
            }
            if let Some(error) = self.failed.take() {
                return Err(self.context.error(error));
            }
            if self.over {
                return Ok(None);
            }
            let step = match self.frames.next() {
                Ok(Some(event)) => {
                    decode_event(&mut *self.decoder, event, self.finished, &mut self.meter, &mut self.ready)
                }
                Ok(None) if !self.ended => return Ok(None),
                Ok(None) if !self.finished => {
                    self.frames.finish();
                    self.finished = true;
                    Ok(())
                }
                Ok(None) => {
                    self.over = true;
                    self.decoder.end(&mut self.ready)
                }
                Err(error) => Err(WireError::malformed(error.to_string())),
            };
            if let Err(error) = step {
                self.over = true;
                self.failed = Some(error);
            }
        }
    }
}
