//! The native API of Ollama.

mod facts;
mod families;
mod request;
mod stream;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use zk_core::kernel::Cx;
use zk_core::model::{
    ErrorKind, IdRule, Model, ProviderError, ThinkingReplay, ThinkingSupport, ToolSpec, WireRules,
};
use zk_core::service::{EventStream, Provider, Request, ToolChoice};

use crate::clocks::Clocks;
use crate::endpoint::{Endpoint, SetupError};
use crate::exchange::{Outgoing, ask, exchange};
use crate::fault::{Call, Fault};
use crate::http::Http;
use crate::prefix::{Head, Prefixes};
use crate::secret::Auth;
use facts::{Facts, Known};

pub(crate) use stream::Decoder;

/// Settings of [`Ollama`].
#[derive(Clone)]
pub struct OllamaOptions {
    /// The provider's name in this program: `ollama`.
    pub name: String,
    /// Where the server is, without `/api`: `http://127.0.0.1:11434`.
    pub base_url: String,
    /// The API key, which only the service at `ollama.com` wants.
    pub auth: Auth,
    /// The window in tokens that the server is asked to make room for: 32,768. More takes more memory, and
    /// a change makes the server load the model again.
    pub num_ctx: u32,
    /// How long the server keeps the model in memory, such as `30m`; its own default unless set.
    pub keep_alive: Option<String>,
    /// More fields for the request body; they win over those zk sends, and objects are merged.
    pub extra_body: Map<String, Value>,
    /// More headers.
    pub extra_headers: Vec<(String, String)>,
    /// How long to wait; by the base URL unless set.
    pub clocks: Option<Clocks>,
    /// The model used when none is asked for.
    pub default_model: Option<String>,
    /// The HTTP clients.
    pub http: Http,
}

impl Default for OllamaOptions {
    fn default() -> Self {
        Self {
            name: "ollama".to_owned(),
            base_url: "http://127.0.0.1:11434".to_owned(),
            auth: Auth::None,
            num_ctx: 32_768,
            keep_alive: None,
            extra_body: Map::new(),
            extra_headers: Vec::new(),
            clocks: None,
            default_model: None,
            http: Http::new(),
        }
    }
}

impl OllamaOptions {
    /// The usual settings for the server at `base_url`.
    pub fn at(base_url: impl Into<String>) -> Self {
        Self { base_url: base_url.into(), ..Self::default() }
    }
}

impl fmt::Debug for OllamaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OllamaOptions")
            .field("name", &self.name)
            .field("auth", &self.auth)
            .field("num_ctx", &self.num_ctx)
            .finish_non_exhaustive()
    }
}

/// A provider that speaks Ollama's own API.
///
/// A model's window is the room it is given, not what it could take: Ollama cuts a longer prompt at its
/// beginning without a word, so a conversation has to be compacted before it gets there.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Ollama, OllamaOptions};
///
/// let local = Ollama::new(OllamaOptions { num_ctx: 16_384, ..OllamaOptions::default() })?;
/// assert_eq!(local.model("qwen3:4b").window, Some(16_384));
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
pub struct Ollama {
    options: OllamaOptions,
    endpoint: Arc<Endpoint>,
    clocks: Clocks,
    prefixes: Prefixes,
    known: Known,
}

impl fmt::Debug for Ollama {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ollama").field("options", &self.options).finish_non_exhaustive()
    }
}

const CHAT: &str = "/api/chat";
/// The most models that are asked about one by one.
const LISTED: usize = 100;

/// What to do about some errors, by what they say.
const HINTS: &[(&str, &str)] = &[
    ("does not support tools", "This model cannot call tools: take another, or offer it no tools"),
    ("does not support thinking", "This model cannot think: turn thinking off"),
    ("requires more system memory", "Take a smaller model, or give it a smaller window (num_ctx)"),
];

impl Ollama {
    /// The provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(mut options: OllamaOptions) -> Result<Self, SetupError> {
        let auth = std::mem::take(&mut options.auth);
        let endpoint = Endpoint::new(
            &options.base_url,
            &[CHAT, "/api", "/v1"],
            auth,
            None,
            &options.extra_headers,
            options.http.clone(),
        )?;
        let usual = if endpoint.is_loopback() { Clocks::local() } else { Clocks::remote() };
        let clocks = options.clocks.unwrap_or(usual);
        Ok(Self {
            options,
            endpoint: Arc::new(endpoint),
            clocks,
            prefixes: Prefixes::default(),
            known: Known::default(),
        })
    }

    fn body(&self, request: &Request, forced: Option<&ToolSpec>) -> Result<Bytes, Fault> {
        let options = &self.options;
        let body = request::Body {
            request,
            num_ctx: options.num_ctx,
            keep_alive: options.keep_alive.as_deref(),
            forced,
            extra: &options.extra_body,
        };
        self.prefixes.body(Head::of(request), request.history.messages(), &body).map_err(|error| {
            Fault::new(ErrorKind::Rejected, format!("the request cannot be written: {error}"))
        })
    }

    /// Models that run on the service, directly or by way of a server here, have their own window.
    fn is_cloud(&self, id: &str) -> bool {
        self.options.base_url.contains("://ollama.com") || id.ends_with("-cloud") || id.ends_with(":cloud")
    }

    fn described(&self, id: &str) -> Model {
        let facts = self.known.get(id);
        let room = u64::from(self.options.num_ctx);
        let mut model = Model::unknown(&*self.options.name, id);
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
        model
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
        &self.options.name
    }

    fn model(&self, id: &str) -> Model {
        self.described(id)
    }

    fn default_model(&self) -> Option<String> {
        self.options.default_model.clone()
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules {
            target: model.reference(),
            ids: IdRule::UP_TO_64,
            vision: model.capabilities.vision,
            image_in_tool_result: false,
            thinking: ThinkingReplay::Echo,
        }
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let call = Call::new(&self.options.name, &request.model.id);
        let request = narrowed(request);
        let forced = forced(&request);
        let outgoing = self.body(&request, forced.as_deref()).map(|body| Outgoing {
            path: CHAT.into(),
            headers: Vec::new(),
            body,
        });
        let tool = forced.map(|tool| tool.name.clone());
        let decoder = Decoder::new(request.model.reference(), tool, u64::from(request.max_tokens));
        let events = exchange(self.endpoint.clone(), call, outgoing, self.clocks, decoder, cx);
        Box::pin(events.map(|event| event.map_err(explain)))
    }

    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        let call = || Call::new(&self.options.name, "*");
        let answer = ask(&self.endpoint, call(), "/api/tags", Vec::new(), None, cx).await?;
        let Some(listed) = answer.get("models").and_then(Value::as_array) else { return Ok(None) };
        let mut models = Vec::new();
        for entry in listed.iter().take(LISTED) {
            let id = entry.get("model").or_else(|| entry.get("name")).and_then(Value::as_str);
            let Some(id) = id else { continue };
            let body = serde_json::to_vec(&json!({ "model": id })).map(Bytes::from);
            let body = body.map_err(|error| Fault::malformed(error.to_string()));
            // A server too old to describe its models still has them.
            let shown = ask(&self.endpoint, call(), "/api/show", Vec::new(), Some(body), cx).await;
            let facts = shown.ok().as_ref().and_then(Facts::read);
            let answers = facts.as_ref().is_none_or(|facts| facts.answers);
            if let Some(facts) = facts {
                self.known.put(id, facts);
            }
            if answers {
                models.push(self.described(id));
            }
        }
        Ok(Some(models))
    }
}
