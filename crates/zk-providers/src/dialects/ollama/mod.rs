//! The native API of Ollama.

mod facts;
mod families;
mod request;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zk_core::kernel::Cx;
use zk_core::model::{
    ErrorKind, IdRule, MediaTypes, Model, ProviderError, ThinkingReplay, ThinkingSupport, ToolSpec, WireRules,
};
use zk_core::service::{EventStream, Provider, Request, ToolChoice};

use crate::encode::size;
use crate::facts::vendors;
use crate::wire::client::ApiClient;
use crate::wire::connection::Connection;
use crate::wire::endpoint::{BaseUrl, SetupError};
use crate::wire::error::WireError;
use crate::wire::exchange::WireRequest;
use facts::{Facts, Known};

pub(crate) use stream::{Asked, Decoder};

/// Settings of [`Ollama`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OllamaOptions {
    /// The window in tokens that the server is asked to make room for: 32,768. More takes more memory, and
    /// a change makes the server load the model again.
    pub num_ctx: u32,
    /// How long the server keeps the model in memory, such as `30m`; its own default unless set.
    pub keep_alive: Option<String>,
}

impl Default for OllamaOptions {
    fn default() -> Self {
        Self { num_ctx: 32_768, keep_alive: None }
    }
}

/// A provider that speaks Ollama's own API. Its base URL ends before `/api`; only the service at `ollama.com`
/// wants a key.
///
/// A model's window is the room it is given, not what it could take. Left to itself, Ollama cuts a longer prompt
/// at its beginning without a word; it is told not to, and for servers too old to listen, a prompt that is
/// surely too long is not sent.
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
#[derive(Debug)]
pub struct Ollama {
    client: ApiClient,
    options: OllamaOptions,
    is_cloud: bool,
    known: Known,
}

const CHAT: &str = "/api/chat";
const BASE_URL: BaseUrl = BaseUrl { strip: &[CHAT, "/api", "/v1"], advice: "It ends before `/api/chat`" };
/// The bytes of text that make a token, on average.
const BYTES_PER_TOKEN: u64 = 4;
/// The most models that are asked about one by one.
const LISTED: usize = 100;

const TOO_LONG: &str =
    "Compact the conversation, or give the model a larger window: `num_ctx` in the provider's options";

/// What to do about some errors, by what they say.
const HINTS: &[(&str, &str)] = &[
    ("does not support tools", "This model cannot call tools: take another, or offer it no tools"),
    ("does not support thinking", "This model cannot think: turn thinking off"),
    ("exceeds the context length", TOO_LONG),
    ("exceeds the available context size", TOO_LONG),
    ("requires more system memory", "Take a smaller model, or give it a smaller window (num_ctx)"),
];

impl Ollama {
    /// The usual connection: a server on this machine.
    #[must_use]
    pub fn connection() -> Connection {
        vendors::OLLAMA.connection()
    }

    /// The provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(connection: Connection, options: OllamaOptions) -> Result<Self, SetupError> {
        let is_cloud = connection.base_url.contains("://ollama.com");
        let client = ApiClient::new(connection, BASE_URL, None)?;
        Ok(Self { client, options, is_cloud, known: Known::default() })
    }

    fn body(&self, request: &Request, forced: Option<&ToolSpec>) -> Result<Bytes, WireError> {
        self.fits(request)?;
        let body = request::Body {
            request,
            num_ctx: self.room(&request.model.id),
            keep_alive: self.options.keep_alive.as_deref(),
            forced,
            extra: self.client.extra_body(),
        };
        self.client.body(request, &body)
    }

    /// Models that run on the service, directly or by way of a server here, have their own window.
    fn is_cloud(&self, id: &str) -> bool {
        self.is_cloud || id.ends_with("-cloud") || id.ends_with(":cloud")
    }

    /// Asks the server about one of its models, and gives whether it is one that answers.
    async fn ask_about(&self, id: &str, cx: &Cx) -> bool {
        let body = serde_json::to_vec(&json!({ "model": id })).map(Bytes::from);
        let body = body.map_err(|error| WireError::malformed(error.to_string()));
        // A server too old to describe its models still has them.
        let shown = self.client.ask("*", "/api/show", Vec::new(), Some(body), cx).await;
        let Some(facts) = shown.ok().as_ref().and_then(Facts::read) else { return true };
        let answers = facts.answers;
        self.known.put(id, facts);
        answers
    }

    fn described(&self, id: &str) -> Model {
        let facts = self.known.get(id);
        let room = u64::from(self.room(id));
        let mut model = Model::unknown(self.client.name(), id);
        model.window = match facts.as_ref().and_then(|facts| facts.window) {
            Some(window) if self.is_cloud(id) => Some(window),
            Some(window) => Some(window.min(room)),
            None => Some(room).filter(|_| !self.is_cloud(id)),
        };
        let by_name = families::thinking(id);
        model.capabilities.thinking = match &facts {
            Some(Facts { thinks: false, .. }) => ThinkingSupport::None,
            Some(Facts { thinks: true, .. }) if by_name == ThinkingSupport::None => ThinkingSupport::Budget,
            Some(_) | None => by_name,
        };
        model.capabilities.vision = facts.is_none_or(|facts| facts.sees);
        self.client.models().correct(model)
    }

    /// A prompt that is longer than its window whatever the tokenizer is refused.
    fn fits(&self, request: &Request) -> Result<(), WireError> {
        let id = &*request.model.id;
        let room = u64::from(self.room(id));
        // To count words is only worth it where the bytes would be too many tokens.
        let is_short = self.is_cloud(id) || size::bytes(request) <= room;
        let least = if is_short { 0 } else { size::least_tokens(request) };
        if least <= room {
            return Ok(());
        }
        let message = format!("the prompt has at least {least} tokens, and its window is {room} (num_ctx)");
        let error = WireError::new(ErrorKind::ContextExceeded, message).hint(TOO_LONG);
        Err(WireError { window: Some(room), ..error })
    }

    /// The window the server is asked for: whoever says how large a model's window is means this.
    fn room(&self, id: &str) -> u32 {
        let said = self.client.models().get(id).and_then(|said| said.window);
        said.and_then(|window| window.try_into().ok()).unwrap_or(self.options.num_ctx)
    }
}

fn explain(mut error: ProviderError) -> ProviderError {
    if let Some((_, hint)) = HINTS.iter().find(|(said, _)| error.message.contains(said)) {
        error.hint = Some((*hint).to_owned());
    } else if error.status == Some(404) && error.message.contains("model") {
        error.hint = Some(format!("`ollama pull {}` gets it, if the name is right", error.model));
    }
    error
}

/// Ollama cannot be told which tool to call, but which shape its answer has to have: the one tool's arguments.
fn forced(request: &Request) -> Option<Arc<ToolSpec>> {
    match (&request.tool_choice, &*request.tools) {
        (ToolChoice::Tool(name), tools) => tools.iter().find(|tool| tool.name == *name).cloned(),
        (ToolChoice::Required, [only]) => Some(only.clone()),
        (ToolChoice::Required | ToolChoice::Auto | ToolChoice::None, _) => None,
    }
}

/// The request with no other tools than may be called.
fn narrowed(mut request: Request) -> Request {
    match &request.tool_choice {
        ToolChoice::None => request.tools = Arc::from([]),
        ToolChoice::Tool(name) => {
            request.tools = request.tools.iter().filter(|tool| tool.name == *name).cloned().collect();
        }
        ToolChoice::Auto | ToolChoice::Required => {}
    }
    request
}

#[async_trait]
impl Provider for Ollama {
    fn name(&self) -> &str {
        self.client.name()
    }

    fn model(&self, id: &str) -> Model {
        self.described(id)
    }

    fn default_model(&self) -> Option<String> {
        self.client.default_model()
    }

    fn known_models(&self) -> Vec<Model> {
        self.client.known_ids().iter().map(|id| self.model(id)).collect()
    }

    fn quota_key(&self) -> Option<String> {
        Some(self.client.quota_key())
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
        // The grammar leaves no room for calls.
        !with_tools
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let request = narrowed(request);
        let forced = forced(&request);
        let outgoing = self.body(&request, forced.as_deref()).map(|body| WireRequest {
            path: CHAT.into(),
            headers: Vec::new(),
            body,
        });
        let tool = forced.map(|tool| tool.name.clone());
        let asked =
            Asked { limit: u64::from(request.max_tokens), input: size::bytes(&request) / BYTES_PER_TOKEN };
        let decoder = Decoder::new(request.model.reference(), tool, asked);
        let events = self.client.stream(&request.model.id, outgoing, decoder, cx);
        Box::pin(events.map(|event| event.map_err(explain)))
    }

    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        let answer = self.client.ask("*", "/api/tags", Vec::new(), None, cx).await?;
        let Some(listed) = answer.get("models").and_then(Value::as_array) else { return Ok(None) };
        let mut models = Vec::new();
        for entry in listed.iter().take(LISTED) {
            let id = entry.get("model").or_else(|| entry.get("name")).and_then(Value::as_str);
            let Some(id) = id else { continue };
            if self.ask_about(id, cx).await {
                models.push(self.described(id));
            }
        }
        Ok(Some(models))
    }

    async fn describe_model(&self, id: &str, cx: &Cx) -> Model {
        self.ask_about(id, cx).await;
        self.described(id)
    }
}
