use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::encode::compact_at::CompactAt;

/// Kind of server that answers: what may be sent depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponsesBackend {
    /// The API as documented: OpenAI itself, xAI, `OpenRouter`. Reasoning goes back sealed.
    #[default]
    Api,
    /// The back end of ChatGPT subscriptions. It takes no output limit, and wants to know the account.
    Subscription,
    /// A server that imitates the API: llama.cpp, LM Studio, vLLM. It is sent no more than it needs.
    Compatible,
}

/// Settings of [`Responses`](super::Responses).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponsesOptions {
    /// Kind of server that answers.
    pub backend: ResponsesBackend,
    /// The kind of summary of its reasoning to ask for; nothing for none, as some organisations must.
    pub reasoning_summary: Option<String>,
    /// Whether unsealed reasoning goes back, for servers of open models that want it. Only to a
    /// [`ResponsesBackend::Compatible`] one.
    pub echo_reasoning: bool,
    /// Edits by which the provider is to make the context smaller itself: the field `context_management`, a
    /// list, sent as it is.
    pub context_management: Option<Value>,
    /// Threshold from which on it compacts, for a compaction in that list that says nothing of it.
    pub compact_at: Option<CompactAt>,
}

impl Default for ResponsesOptions {
    fn default() -> Self {
        Self {
            backend: ResponsesBackend::Api,
            reasoning_summary: Some("auto".to_owned()),
            echo_reasoning: false,
            context_management: None,
            compact_at: None,
        }
    }
}

impl ResponsesOptions {
    /// For the back end of subscriptions.
    #[must_use]
    pub fn subscription() -> Self {
        Self { backend: ResponsesBackend::Subscription, ..Self::default() }
    }

    /// For a server that imitates the API.
    #[must_use]
    pub fn compatible() -> Self {
        Self { backend: ResponsesBackend::Compatible, ..Self::default() }
    }
}
