use std::collections::VecDeque;
use std::fmt;

use zk_core::model::{Model, ModelRef, Phase, ProviderError};
use zk_core::service::StreamEvent;

use crate::dialects::{anthropic, chat, gemini, ollama, responses};
use crate::facts::profiles::CompatProfile;
use crate::wire::caps::Meter;
use crate::wire::error::{RequestContext, WireError};
use crate::wire::exchange::{Decode, take};
use crate::wire::frames::Frames;

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
    call: RequestContext,
    frames: Frames,
    meter: Meter,
    decoder: Box<dyn Decode>,
    ready: VecDeque<StreamEvent>,
    /// How it failed, behind what came before.
    failed: Option<WireError>,
    /// No more bytes will be fed.
    ended: bool,
    /// What was left of the last event has been handed out too.
    finished: bool,
    over: bool,
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("over", &self.over).finish_non_exhaustive()
    }
}

impl Replay {
    /// A response of the Messages API, as `model` gave it.
    #[must_use]
    pub fn anthropic(model: ModelRef) -> Self {
        let call = RequestContext::new(&model.provider, &model.model);
        Self::new(call, Box::new(anthropic::Decoder::new(model)))
    }

    /// A response of Chat Completions, as `model` gave it, under the most tolerant profile.
    #[must_use]
    pub fn chat(model: ModelRef) -> Self {
        let model = Model::unknown(model.provider, model.model);
        Self::compat(&model, &CompatProfile::default())
    }

    /// A response of Chat Completions, as `model` gave it on a server of the kind that `profile` describes.
    #[must_use]
    pub fn compat(model: &Model, profile: &CompatProfile) -> Self {
        let call = RequestContext::new(&model.provider, &model.id);
        Self::new(call, Box::new(chat::Decoder::new(model, profile)))
    }

    /// A response of the Responses API, as `model` gave it.
    #[must_use]
    pub fn responses(model: ModelRef) -> Self {
        let call = RequestContext::new(&model.provider, &model.model);
        Self::new(call, Box::new(responses::Decoder::new(model, None)))
    }

    /// A response of the Gemini API, as `model` gave it.
    #[must_use]
    pub fn gemini(model: ModelRef) -> Self {
        let call = RequestContext::new(&model.provider, &model.model);
        Self::new(call, Box::new(gemini::Decoder::new(model, std::sync::Arc::from([]))))
    }

    /// A response of Ollama's native API, as `model` gave it.
    #[must_use]
    pub fn ollama(model: ModelRef) -> Self {
        let call = RequestContext::new(&model.provider, &model.model);
        Self::new(call, Box::new(ollama::Decoder::new(model, None, ollama::Asked::default())))
    }

    fn new(mut call: RequestContext, decoder: Box<dyn Decode>) -> Self {
        call.phase = Phase::Stream;
        Self {
            call,
            frames: decoder.frames(),
            meter: Meter::default(),
            decoder,
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
                return Err(self.call.error(error));
            }
            if self.over {
                return Ok(None);
            }
            let step = match self.frames.next() {
                Ok(Some(event)) => {
                    take(&mut *self.decoder, event, self.finished, &mut self.meter, &mut self.ready)
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
