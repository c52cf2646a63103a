use zk_core::model::IdRule;

use super::Dialect;

/// Strictness of a provider where providers of one dialect differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strictness {
    /// The wire format.
    pub dialect: Dialect,
    /// Rule for tool-call ids.
    pub ids: IdRule,
    /// Calls are numbered over the whole conversation, as in `functions.read:0`, and such ids come back. (Kimi)
    pub numbered_calls: bool,
    /// Two messages of one role in a row are an error; Anthropic itself merges them.
    pub alternate: bool,
    /// A request may end with an assistant message for the model to go on with.
    pub prefill: bool,
    /// A history with calls or results needs the tools declared.
    pub tools_for_history: bool,
    /// With budget thinking, the assistant message of an unfinished tool loop begins with thinking.
    pub thinking_first: bool,
    /// Proofs of thinking, and the ids of items, are taken back only if the server gave them out itself: to the
    /// same model, for the same content. [`FakeServer`](crate::FakeServer) keeps a list of them; [`check_with`](super::check_with),
    /// which sees one request only, does not look.
    pub own_proofs: bool,
    /// Form in which reasoning is told and taken back in Chat Completions.
    pub reasoning: Reasoning,
    /// Messages hold text and nothing else.
    pub text_only: bool,
    /// An assistant message has to stand between tool messages and a user message.
    pub assistant_after_tools: bool,
    /// A stream of Chat Completions tells the usage without being asked to.
    pub tells_usage: bool,
    /// The role `developer` is known.
    pub developer: bool,
    /// Fields that are not taken, although the dialect has them.
    pub unsupported: &'static [&'static str],
}

/// Form in which a vendor of Chat Completions tells reasoning and takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reasoning {
    /// In `reasoning_content`; back or not, as the client likes.
    Content,
    /// In `reasoning_content`, which every assistant message of a request for thinking has to carry, be it empty.
    /// While the model thinks, no tool can be forced. (`DeepSeek`)
    Owed,
    /// In `reasoning`, and with proofs in `reasoning_details`, which come back as they were and then alone.
    /// (`OpenRouter`)
    Details,
    /// In parts of the content. (Mistral)
    Parts,
}

impl Strictness {
    /// Strictness of the first-party API of the dialect.
    #[must_use]
    pub fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Anthropic => Self::anthropic(),
            Dialect::Chat => Self::chat(),
            Dialect::Responses => Self::responses(),
            Dialect::Gemini => Self::gemini(),
            Dialect::Ollama => Self { dialect: Dialect::Ollama, own_proofs: false, ..Self::gemini() },
            Dialect::Codex => Self { dialect: Dialect::Codex, ..Self::responses() },
        }
    }

    /// Anthropic's own API, current models.
    #[must_use]
    pub fn anthropic() -> Self {
        Self {
            dialect: Dialect::Anthropic,
            ids: IdRule::UP_TO_64,
            numbered_calls: false,
            alternate: false,
            prefill: false,
            tools_for_history: true,
            thinking_first: true,
            own_proofs: true,
            reasoning: Reasoning::Content,
            text_only: false,
            assistant_after_tools: false,
            tells_usage: false,
            developer: true,
            unsupported: &[],
        }
    }

    /// OpenAI's own API, and what most compatible servers add to it.
    #[must_use]
    pub fn chat() -> Self {
        Self {
            dialect: Dialect::Chat,
            ids: IdRule::UP_TO_40,
            alternate: false,
            prefill: false,
            thinking_first: false,
            own_proofs: false,
            ..Self::anthropic()
        }
    }

    /// The Responses API.
    #[must_use]
    pub fn responses() -> Self {
        Self {
            dialect: Dialect::Responses,
            ids: IdRule::UP_TO_64,
            tools_for_history: false,
            own_proofs: true,
            ..Self::chat()
        }
    }

    /// The Gemini API. From Gemini 3 on, calls need their signatures.
    #[must_use]
    pub fn gemini() -> Self {
        Self { dialect: Dialect::Gemini, ..Self::responses() }
    }

    /// Mistral: ids of exactly nine letters and digits, reasoning in parts of the content.
    #[must_use]
    pub fn mistral() -> Self {
        Self {
            ids: IdRule::NINE,
            reasoning: Reasoning::Parts,
            tells_usage: true,
            developer: false,
            ..Self::chat()
        }
    }

    /// `DeepSeek`: reasoning on every assistant message, and nothing but text.
    #[must_use]
    pub fn deepseek() -> Self {
        Self {
            reasoning: Reasoning::Owed,
            text_only: true,
            developer: false,
            tools_for_history: false,
            ..Self::chat()
        }
    }

    /// `OpenRouter`: reasoning with proofs.
    #[must_use]
    pub fn openrouter() -> Self {
        Self {
            ids: IdRule::UP_TO_64,
            reasoning: Reasoning::Details,
            own_proofs: true,
            tells_usage: true,
            ..Self::chat()
        }
    }

    /// Moonshot: calls with Kimi's numbers.
    #[must_use]
    pub fn moonshot() -> Self {
        Self { numbered_calls: true, developer: false, ..Self::chat() }
    }

    /// Cerebras, which takes fewer fields.
    #[must_use]
    pub fn cerebras() -> Self {
        let unsupported = &["frequency_penalty", "presence_penalty", "logit_bias", "service_tier", "store"];
        Self { developer: false, unsupported, ..Self::chat() }
    }

    /// Rejects two messages of one role in a row, too, as many gateways do.
    #[must_use]
    pub fn alternating(self) -> Self {
        Self { alternate: true, ..self }
    }
}
