use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::encode::compact_at::CompactAt;

/// Kind of server, which determines the fields to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponsesBackend {
    /// The documented API: OpenAI itself, xAI, `OpenRouter`. Reasoning is sent back sealed.
    #[default]
    Api,
    /// The back end for ChatGPT subscriptions. It accepts no output limit and requires the account.
    Subscription,
    /// A compatible server: llama.cpp, LM Studio, vLLM. Only necessary fields are sent.
    Compatible,
}

/// Options of [`Responses`](super::Responses).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponsesOptions {
    /// Kind of the server.
    pub backend: ResponsesBackend,
    /// Kind of reasoning summary to request; `None` for no summary, which some organisations require.
    pub reasoning_summary: Option<String>,
    /// Whether unsealed reasoning is sent back, for servers of open models that want it. Only for a
    /// [`ResponsesBackend::Compatible`] server.
    pub echo_reasoning: bool,
    /// Context edits for the provider to make: the list `context_management`, sent unchanged.
    pub context_management: Option<Value>,
    /// Default threshold for a compaction in that list that sets none.
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
    /// Returns the options for the back end of subscriptions.
    #[must_use]
    pub fn subscription() -> Self {
        Self { backend: ResponsesBackend::Subscription, ..Self::default() }
    }

    /// Returns the options for a compatible server.
    #[must_use]
    pub fn compatible() -> Self {
        Self { backend: ResponsesBackend::Compatible, ..Self::default() }
    }
}
