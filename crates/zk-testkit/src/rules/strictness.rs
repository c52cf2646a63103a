use zk_core::model::IdRule;

use super::Dialect;

/// Rules in which the providers of one dialect differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strictness {
    /// The wire format.
    pub dialect: Dialect,
    /// Rule for tool-call ids.
    pub ids: IdRule,
    /// Whether call ids number the calls of the whole conversation, as in `functions.read:0`. (Kimi)
    pub numbered_calls: bool,
    /// Whether two messages of one role in a row are an error; Anthropic's API merges them.
    pub alternate: bool,
    /// Whether a request may end with an assistant message, which the model continues.
    pub prefill: bool,
    /// Whether a history with calls or results requires declared tools.
    pub tools_for_history: bool,
    /// Whether the assistant message of an unfinished tool loop must begin with thinking, if that has a
    /// budget.
    pub thinking_first: bool,
    /// Whether thinking signatures and item ids are only accepted if the server issued them to the same model
    /// for the same content. [`FakeServer`](crate::FakeServer) records them;
    /// [`check_with`](super::check_with) cannot check this for a single request.
    pub own_proofs: bool,
    /// Form of reasoning in Chat Completions.
    pub reasoning: Reasoning,
    /// Whether messages may contain only text.
    pub text_only: bool,
    /// Whether an assistant message is required between tool messages and a user message.
    pub assistant_after_tools: bool,
    /// Whether a stream of Chat Completions always reports usage.
    pub tells_usage: bool,
    /// Whether the role `developer` is known.
    pub developer: bool,
    /// Fields of the dialect that are rejected.
    pub unsupported: &'static [&'static str],
}

/// Form of reasoning in a vendor's Chat Completions, in responses and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reasoning {
    /// Field `reasoning_content`, optional in requests.
    Content,
    /// Field `reasoning_content`, which every assistant message of a request with thinking must have, even if
    /// empty. With thinking, no tool can be forced. (`DeepSeek`)
    Owed,
    /// Field `reasoning`, and `reasoning_details` with signatures; the latter must be returned unchanged and
    /// alone. (`OpenRouter`)
    Details,
    /// Parts of the content. (Mistral)
    Parts,
}

impl Strictness {
    /// Rules of the dialect's first-party API.
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

    /// Rules of Anthropic's API for current models.
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

    /// Rules of OpenAI's API, with common additions of compatible servers.
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

    /// Rules of the Responses API.
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

    /// Rules of the Gemini API. From Gemini 3 on, calls need signatures.
    #[must_use]
    pub fn gemini() -> Self {
        Self { dialect: Dialect::Gemini, ..Self::responses() }
    }

    /// Rules of Mistral: ids of exactly nine letters and digits, reasoning in parts of the content.
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

    /// Rules of `DeepSeek`: reasoning in every assistant message, and only text.
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

    /// Rules of `OpenRouter`: reasoning with signatures.
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

    /// Rules of Moonshot: call ids with Kimi's numbers.
    #[must_use]
    pub fn moonshot() -> Self {
        Self { numbered_calls: true, developer: false, ..Self::chat() }
    }

    /// Rules of Cerebras, which accepts fewer fields.
    #[must_use]
    pub fn cerebras() -> Self {
        let unsupported = &["frequency_penalty", "presence_penalty", "logit_bias", "service_tier", "store"];
        Self { developer: false, unsupported, ..Self::chat() }
    }

    /// Also rejects two messages of one role in a row, as many gateways do.
    #[must_use]
    pub fn alternating(self) -> Self {
        Self { alternate: true, ..self }
    }
}
