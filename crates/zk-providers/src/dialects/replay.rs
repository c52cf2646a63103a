//! Replays recorded responses of the built-in dialects.

use std::sync::Arc;

use zk_core::model::{Model, ModelRef};

use crate::catalogue::profiles::CompatProfile;
use crate::dialects::{anthropic, chat, gemini, ollama, responses};
use crate::wire::replay::Replay;

impl Replay {
    /// Replays a response of `model` over the Messages API.
    #[must_use]
    pub fn anthropic(model: ModelRef) -> Self {
        Self::decoding(&model.clone(), anthropic::Decoder::new(model))
    }

    /// Replays a response of `model` over Chat Completions, with the most tolerant profile.
    #[must_use]
    pub fn chat(model: ModelRef) -> Self {
        let model = Model::unknown(model.provider, model.model);
        Self::compat(&model, &CompatProfile::default())
    }

    /// Replays a response of `model` over Chat Completions, from a server with this profile.
    #[must_use]
    pub fn compat(model: &Model, profile: &CompatProfile) -> Self {
        Self::decoding(&model.reference(), chat::Decoder::new(model, profile))
    }

    /// Replays a response of `model` over the Responses API.
    #[must_use]
    pub fn responses(model: ModelRef) -> Self {
        Self::decoding(&model.clone(), responses::Decoder::new(model, None))
    }

    /// Replays a response of `model` over the Gemini API.
    #[must_use]
    pub fn gemini(model: ModelRef) -> Self {
        Self::decoding(&model.clone(), gemini::Decoder::new(model, Arc::from([])))
    }

    /// Replays a response of `model` over Ollama's native API.
    #[must_use]
    pub fn ollama(model: ModelRef) -> Self {
        Self::decoding(&model.clone(), ollama::Decoder::new(model, None, ollama::RequestSize::default()))
    }
}
