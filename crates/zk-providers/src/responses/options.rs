use std::fmt;

use serde_json::{Map, Value};

use crate::clocks::Clocks;
use crate::http::Http;
use crate::secret::{Auth, Secret};

/// Who answers: what may be sent depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ResponsesBackend {
    /// The API as documented: OpenAI itself, xAI, `OpenRouter`. Reasoning goes back sealed.
    #[default]
    Api,
    /// The back end of ChatGPT subscriptions. It takes no output limit, and wants to know the account.
    Codex {
        /// The account: the claim `chatgpt_account_id` of the access token.
        account_id: String,
    },
    /// A server that imitates the API: llama.cpp, LM Studio, vLLM. It is sent no more than it needs.
    Compatible,
}

/// Settings of [`Responses`](super::Responses).
#[derive(Clone)]
pub struct ResponsesOptions {
    /// The provider's name in this program: `openai`.
    pub name: String,
    /// Where the API is, with `/v1` where the server has it: `https://api.openai.com/v1`.
    pub base_url: String,
    /// The API key or access token.
    pub auth: Auth,
    /// Who answers there.
    pub backend: ResponsesBackend,
    /// The kind of summary of its reasoning to ask for; nothing for none, as some organisations must.
    pub reasoning_summary: Option<String>,
    /// Whether unsealed reasoning goes back, for servers of open models that want it. Only to a
    /// [`ResponsesBackend::Compatible`] one.
    pub echo_reasoning: bool,
    /// More fields for the request body; they win over those zk sends.
    pub extra_body: Map<String, Value>,
    /// More headers, such as `OpenAI-Organization` and `OpenAI-Project`.
    pub extra_headers: Vec<(String, String)>,
    /// How long to wait; by the base URL unless set.
    pub clocks: Option<Clocks>,
    /// The model used when none is asked for.
    pub default_model: Option<String>,
    /// The HTTP clients.
    pub http: Http,
}

impl Default for ResponsesOptions {
    fn default() -> Self {
        Self {
            name: "openai".to_owned(),
            base_url: "https://api.openai.com/v1".to_owned(),
            auth: Auth::None,
            backend: ResponsesBackend::Api,
            reasoning_summary: Some("auto".to_owned()),
            echo_reasoning: false,
            extra_body: Map::new(),
            extra_headers: Vec::new(),
            clocks: None,
            default_model: Some("gpt-6.1-sol".to_owned()),
            http: Http::new(),
        }
    }
}

impl ResponsesOptions {
    /// The usual settings with an API key.
    pub fn with_key(key: impl Into<Secret>) -> Self {
        Self { auth: Auth::Key(key.into()), ..Self::default() }
    }

    /// The Codex back end, with the access token of a ChatGPT subscription and its account.
    pub fn codex(token: impl Into<Secret>, account_id: impl Into<String>) -> Self {
        Self {
            name: "openai_codex".to_owned(),
            base_url: "https://chatgpt.com/backend-api/codex".to_owned(),
            auth: Auth::Bearer(token.into()),
            backend: ResponsesBackend::Codex { account_id: account_id.into() },
            ..Self::default()
        }
    }

    /// A server at `base_url` that imitates the API, called `openai_compat`.
    pub fn at(base_url: impl Into<String>) -> Self {
        Self {
            name: "openai_compat".to_owned(),
            base_url: base_url.into(),
            backend: ResponsesBackend::Compatible,
            default_model: None,
            ..Self::default()
        }
    }
}

impl fmt::Debug for ResponsesOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponsesOptions")
            .field("name", &self.name)
            .field("auth", &self.auth)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}
