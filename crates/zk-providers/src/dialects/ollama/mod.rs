//! The native API of Ollama.

mod model_info;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod think;

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zk_core::kernel::Cx;
use zk_core::model::{
    ErrorKind, IdRule, MediaTypes, Model, ProviderError, ThinkingReplay, ThinkingSupport, ToolProtocol,
    ToolSpec, WireRules,
};
use zk_core::service::{Request, ToolChoice};

use crate::catalogue::{places, thinking, vendors};
use crate::encode::size;
use crate::wire::connection::Connection;
use crate::wire::endpoint::SetupError;
use crate::wire::{ApiClient, Attempt, BaseUrl, Decode, Dialect, HttpProvider, WireError, WireRequest};
use model_info::{ModelInfo, ModelInfoCache};

pub(crate) use stream::{Decoder, RequestSize};

/// Options of [`Ollama`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OllamaOptions {
    /// Size of the window that the server has to allocate, in tokens: 32,768 by default. A larger one needs
    /// more memory, and a change makes the server reload the model.
    pub num_ctx: u32,
    /// Time for which the server keeps the model in memory, such as `30m`; `None` for the server's default.
    pub keep_alive: Option<String>,
}

impl Default for OllamaOptions {
    fn default() -> Self {
        Self { num_ctx: 32_768, keep_alive: None }
    }
}

/// A provider that uses Ollama's native API. Its base URL ends before `/api`; only the service at
/// `ollama.com` requires a key.
///
/// A model's window is the allocated one, not the largest possible. By default Ollama silently cuts a prompt
/// that is too long at its beginning. zk disables that, and does not send a prompt that is certainly too
/// long, for old servers that ignore the option.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Ollama, OllamaOptions};
///
/// let options = OllamaOptions { num_ctx: 16_384, ..OllamaOptions::default() };
/// let local = Ollama::new(Ollama::connection(), options)?;
/// assert_eq!(local.model("qwen3:4b").window, Some(16_384));
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
pub type Ollama = HttpProvider<OllamaDialect>;

/// The dialect of [`Ollama`].
#[derive(Debug)]
pub struct OllamaDialect {
    options: OllamaOptions,
    is_service: bool,
    models: ModelInfoCache,
}

const CHAT: &str = "/api/chat";
/// Average bytes of text per token.
const BYTES_PER_TOKEN: u64 = 4;
/// Maximum number of models whose details are requested one by one.
const MAX_LISTED_MODELS: usize = 100;

const TOO_LONG: &str =
    "Compact the conversation, or give the model a larger window: `num_ctx` in the provider's options";

/// Hints for errors, by a phrase of their text.
const HINTS: &[(&str, &str)] = &[
    ("does not support tools", "This model cannot call tools: take another, or offer it no tools"),
    ("does not support thinking", "This model cannot think: turn thinking off"),
    ("exceeds the context length", TOO_LONG),
    ("exceeds the available context size", TOO_LONG),
    ("requires more system memory", "Take a smaller model, or give it a smaller window (num_ctx)"),
];

impl Ollama {
    /// Returns the usual connection: a server on this machine.
    #[must_use]
    pub fn connection() -> Connection {
        vendors::OLLAMA.connection()
    }

    /// Creates the provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(connection: Connection, options: OllamaOptions) -> Result<Self, SetupError> {
        let is_service = places::is_ollama_service(&connection.base_url);
        let models = ModelInfoCache::default();
        Self::with_dialect(connection, OllamaDialect { options, is_service, models })
    }
}

impl OllamaDialect {
    /// Whether the model runs on the hosted service, directly or through a local server; its window is not
    /// allocated by zk then.
    fn is_remote(&self, id: &str) -> bool {
        self.is_service || places::runs_on_ollama_service(id)
    }

    /// Requests the details of a model. Returns whether it is a chat model.
    async fn fetch_info(&self, client: &ApiClient, id: &str, cx: &Cx) -> bool {
        let Ok(request) = WireRequest::json("/api/show", &json!({ "model": id })) else { return true };
        // An old server without this endpoint still has the models.
        let shown = client.fetch("*", request, cx).await;
        let Some(info) = shown.ok().as_ref().and_then(ModelInfo::read) else { return true };
        let answers = info.answers;
        self.models.insert(id, info);
        answers
    }

    /// Rejects a prompt that exceeds the window with any tokenizer.
    fn check_fits(&self, client: &ApiClient, request: &Request) -> Result<(), WireError> {
        let id = &*request.model.id;
        let window = u64::from(self.window(client, id));
        // Words are counted only if the text might be too long.
        let is_short = self.is_remote(id) || size::bytes(request) <= window;
        let least = if is_short { 0 } else { size::least_tokens(request) };
        if least <= window {
            return Ok(());
        }
        let message = format!("the prompt has at least {least} tokens, and its window is {window} (num_ctx)");
        let error = WireError::new(ErrorKind::ContextExceeded, message).hint(TOO_LONG);
        Err(WireError { window: Some(window), ..error })
    }

    /// Returns the window to request; a person's override of a model's window applies.
    fn window(&self, client: &ApiClient, id: &str) -> u32 {
        let window = client.overrides().get(id).and_then(|row| row.window);
        window.and_then(|window| window.try_into().ok()).unwrap_or(self.options.num_ctx)
    }
}

fn explain(mut error: ProviderError) -> ProviderError {
    if let Some((_, hint)) = HINTS.iter().find(|(words, _)| error.message.contains(words)) {
        error.hint = Some((*hint).to_owned());
    } else if error.status == Some(404) && error.message.contains("model") {
        error.hint = Some(format!("`ollama pull {}` gets it, if the name is right", error.model));
    }
    error
}

/// Returns the only tool that may be called. Ollama cannot be told to call a tool, but to answer in the form
/// of a schema: that of the tool's arguments.
fn forced_tool(request: &Request) -> Option<&ToolSpec> {
    match (&request.tool_choice, &*request.tools) {
        (ToolChoice::Tool(name), tools) => tools.iter().find(|tool| tool.name == *name).map(|tool| &**tool),
        (ToolChoice::Required, [only]) => Some(only),
        (ToolChoice::Required | ToolChoice::Auto | ToolChoice::None, _) => None,
    }
}

#[async_trait]
impl Dialect for OllamaDialect {
    const BASE_URL: BaseUrl = BaseUrl { strip: &[CHAT, "/api", "/v1"], advice: "It ends before `/api/chat`" };

    fn model(&self, client: &ApiClient, id: &str) -> Model {
        let info = self.models.get(id);
        let asked = u64::from(self.window(client, id));
        let mut model = Model::unknown(client.name(), id);
        model.window = match info.as_ref().and_then(|info| info.window) {
            Some(window) if self.is_remote(id) => Some(window),
            Some(window) => Some(window.min(asked)),
            None => Some(asked).filter(|_| !self.is_remote(id)),
        };
        let by_name = thinking::local_support(id);
        model.capabilities.thinking = match &info {
            Some(ModelInfo { thinks: false, .. }) => ThinkingSupport::None,
            Some(ModelInfo { thinks: true, .. }) if by_name == ThinkingSupport::None => {
                ThinkingSupport::Budget
            }
            Some(_) | None => by_name,
        };
        if info.as_ref().is_some_and(|info| info.answers && !info.calls) {
            model.capabilities.tool_protocol = ToolProtocol::Inline;
        }
        model.capabilities.vision = info.is_none_or(|info| info.sees);
        client.overrides().correct(model)
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules {
            target: model.reference(),
            ids: IdRule::UP_TO_64,
            vision: model.capabilities.vision,
            media: MediaTypes {
                images: &["image/jpeg", "image/png", "image/webp"],
                documents: &["text/*"],
                largest_image: None,
            },
            image_in_tool_result: false,
            image_in_answer: false,
            thinking: ThinkingReplay::Echo,
            resumes: false,
        }
    }

    fn native_output(&self, _: &Model, _: &Value, with_tools: bool) -> bool {
        // The grammar for a schema allows no calls.
        !with_tools
    }

    /// Offers no other tools than the forced one.
    fn prepare(&self, mut request: Request) -> Request {
        match &request.tool_choice {
            ToolChoice::None => request.tools = Arc::from([]),
            ToolChoice::Tool(name) => {
                request.tools = request.tools.iter().filter(|tool| tool.name == *name).cloned().collect();
            }
            ToolChoice::Auto | ToolChoice::Required => {}
        }
        request
    }

    fn request(&self, client: &ApiClient, request: &Request) -> Result<WireRequest, WireError> {
        self.check_fits(client, request)?;
        let body = request::Body {
            request,
            num_ctx: self.window(client, &request.model.id),
            keep_alive: self.options.keep_alive.as_deref(),
            forced: forced_tool(request),
            extra: client.extra_body(),
        };
        Ok(WireRequest::post(CHAT, client.body(request, &body)?))
    }

    fn decoder(&self, _: &ApiClient, request: &Request, _: Attempt) -> Box<dyn Decode> {
        let size = RequestSize {
            limit: u64::from(request.max_tokens),
            input: size::bytes(request) / BYTES_PER_TOKEN,
        };
        let tool = forced_tool(request).map(|tool| tool.name.clone());
        Box::new(Decoder::new(request.model.reference(), tool, size))
    }

    fn explain(&self, error: ProviderError, _: &Request) -> ProviderError {
        explain(error)
    }

    async fn list_models(&self, client: &ApiClient, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        let answer = client.fetch("*", WireRequest::get("/api/tags"), cx).await?;
        let Some(listed) = answer.get("models").and_then(Value::as_array) else { return Ok(None) };
        let mut models = Vec::new();
        for entry in listed.iter().take(MAX_LISTED_MODELS) {
            let id = entry.get("model").or_else(|| entry.get("name")).and_then(Value::as_str);
            let Some(id) = id else { continue };
            if self.fetch_info(client, id, cx).await {
                models.push(self.model(client, id));
            }
        }
        Ok(Some(models))
    }

    async fn describe_model(&self, client: &ApiClient, id: &str, cx: &Cx) -> Model {
        self.fetch_info(client, id, cx).await;
        self.model(client, id)
    }
}
