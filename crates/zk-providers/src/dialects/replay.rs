//! Replays of the built-in dialects.

use std::sync::Arc;

use zk_core::model::{Model, ModelRef};

use crate::catalogue::profiles::CompatProfile;
use crate::dialects::{anthropic, chat, gemini, ollama, responses};
use crate::wire::replay::Replay;

impl Replay {
    /// A response of the Messages API, as `model` gave it.
    #[must_use]
    pub fn anthropic(model: ModelRef) -> Self {
        Self::decoding(&model.clone(), anthropic::Decoder::new(model))
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
        Self::decoding(&model.reference(), chat::Decoder::new(model, profile))
    }

    /// A response of the Responses API, as `model` gave it.
    #[must_use]
    pub fn responses(model: ModelRef) -> Self {
        Self::decoding(&model.clone(), responses::Decoder::new(model, None))
    }

    /// A response of the Gemini API, as `model` gave it.
    #[must_use]
    pub fn gemini(model: ModelRef) -> Self {
        Self::decoding(&model.clone(), gemini::Decoder::new(model, Arc::from([])))
    }

    /// A response of Ollama's native API, as `model` gave it.
    #[must_use]
    pub fn ollama(model: ModelRef) -> Self {
        Self::decoding(&model.clone(), ollama::Decoder::new(model, None, ollama::RequestSize::default()))
    }
}
