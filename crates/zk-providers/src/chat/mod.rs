//! Chat Completions, as OpenAI made it and as many servers understood it.

mod calls;
mod chunk;
mod profile;
mod request;
mod stream;
mod usage;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Map, Value};
use zk_core::kernel::Cx;
use zk_core::model::{ErrorKind, Model, ProviderError, ThinkingReplay, ThinkingSupport, WireRules};
use zk_core::service::{EventStream, Provider, Request, ToolChoice};

use crate::catalogue;
use crate::clocks::Clocks;
use crate::endpoint::{Endpoint, SetupError};
use crate::exchange::{Outgoing, ask, exchange};
use crate::fault::{Call, Fault};
use crate::http::Http;
use crate::prefix::{Head, Prefixes};
use crate::secret::{Auth, Secret};

pub use profile::{
    CompatProfile, EmptyContent, PROFILES, ReasoningEcho, ReasoningFormat, SystemRole, ToolChoices,
};
pub(crate) use stream::Decoder;

/// Settings of [`Compat`].
#[derive(Clone)]
pub struct CompatOptions {
    /// The provider's name in this program.
    pub name: String,
    /// Where the API is, with `/v1` where the server has it.
    pub base_url: String,
    /// The API key, if one is needed.
    pub auth: Auth,
    /// What is special about the server.
    pub profile: CompatProfile,
    /// More fields for the request body; they win over those zk sends.
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

impl CompatOptions {
    /// A server at `base_url`, with the most tolerant profile, called `openai_compat`.
    pub fn at(base_url: impl Into<String>) -> Self {
        Self {
            name: "openai_compat".to_owned(),
            base_url: base_url.into(),
            auth: Auth::None,
            profile: CompatProfile::default(),
            extra_body: Map::new(),
            extra_headers: Vec::new(),
            clocks: None,
            default_model: None,
            http: Http::new(),
        }
    }

    /// With an API key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Secret>) -> Self {
        self.auth = Auth::Key(key.into());
        self
    }
}

impl fmt::Debug for CompatOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompatOptions")
            .field("name", &self.name)
            .field("auth", &self.auth)
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}

/// A provider that speaks Chat Completions.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Compat, CompatOptions};
///
/// let local = Compat::new(CompatOptions::at("http://127.0.0.1:8080/v1"))?;
/// assert_eq!(local.name(), "openai_compat");
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
pub struct Compat {
    options: CompatOptions,
    endpoint: Arc<Endpoint>,
    clocks: Clocks,
    prefixes: Prefixes,
}

impl fmt::Debug for Compat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compat").field("options", &self.options).finish_non_exhaustive()
    }
}

const COMPLETIONS: &str = "/chat/completions";

impl Compat {
    /// The provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(mut options: CompatOptions) -> Result<Self, SetupError> {
        let auth = std::mem::take(&mut options.auth);
        let endpoint = Endpoint::new(
            &options.base_url,
            &[COMPLETIONS],
            auth,
            None,
            &options.extra_headers,
            options.http.clone(),
        )?;
        let usual = if endpoint.is_loopback() { Clocks::local() } else { Clocks::remote() };
        let clocks = options.clocks.unwrap_or(usual);
        Ok(Self { options, endpoint: Arc::new(endpoint), clocks, prefixes: Prefixes::default() })
    }

    fn body(&self, request: &Request) -> Result<Bytes, Fault> {
        let profile = &self.options.profile;
        let efforts = self.row(&request.model.id).map_or(&[][..], |row| row.efforts());
        let body = request::Body { request, profile, efforts, extra: &self.options.extra_body };
        self.prefixes.body(Head::of(request), request.history.messages(), &body).map_err(|error| {
            Fault::new(ErrorKind::Rejected, format!("the request cannot be written: {error}"))
        })
    }

    /// Where a server cannot be told which tool to call, no other is offered.
    fn narrowed(&self, mut request: Request) -> Request {
        if self.options.profile.tool_choice == ToolChoices::NoName
            && let ToolChoice::Tool(name) = &request.tool_choice
        {
            request.tools = request.tools.iter().filter(|tool| tool.name == *name).cloned().collect();
        }
        request
    }

    fn row(&self, id: &str) -> Option<&'static catalogue::Row> {
        let catalogue = self.options.profile.catalogue.as_deref();
        // Gateways put the vendor before the name.
        let bare = id.rsplit('/').next().unwrap_or(id);
        catalogue::find(catalogue, id).or_else(|| catalogue::find(catalogue, bare))
    }

    fn known(&self, id: &str) -> Model {
        let profile = &self.options.profile;
        let name = &*self.options.name;
        let mut model = match self.row(id) {
            Some(row) => row.model(name, id),
            None => {
                let mut model = Model::unknown(name, id);
                // Whoever asks for reasoning gets it asked for.
                model.capabilities.thinking = ThinkingSupport::Effort;
                model
            }
        };
        if profile.catalogue.is_none() {
            // Another service's prices are not this one's.
            model.prices = None;
        }
        let capabilities = &mut model.capabilities;
        capabilities.vision &= profile.vision;
        capabilities.image_in_tool_result = profile.image_in_tool_result;
        capabilities.thinking = match (capabilities.thinking, profile.reasoning) {
            (ThinkingSupport::None, _) | (_, ReasoningFormat::None) => ThinkingSupport::None,
            (ThinkingSupport::Budget | ThinkingSupport::Effort | ThinkingSupport::Adaptive, _) => {
                ThinkingSupport::Effort
            }
        };
        model
    }
}

#[async_trait]
impl Provider for Compat {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn model(&self, id: &str) -> Model {
        self.known(id)
    }

    fn default_model(&self) -> Option<String> {
        self.options.default_model.clone()
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules {
            ids: self.options.profile.ids,
            vision: model.capabilities.vision,
            image_in_tool_result: model.capabilities.image_in_tool_result,
            thinking: match self.options.profile.echo {
                ReasoningEcho::No => ThinkingReplay::Never,
                ReasoningEcho::In(_) | ReasoningEcho::Always(_) => ThinkingReplay::Echo,
            },
            ..WireRules::tolerant(model.reference())
        }
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let call = Call::new(&self.options.name, &request.model.id);
        let request = self.narrowed(request);
        let outgoing =
            self.body(&request).map(|body| Outgoing { path: COMPLETIONS.into(), headers: Vec::new(), body });
        let decoder = Decoder::new(&request.model, &self.options.profile);
        exchange(self.endpoint.clone(), call, outgoing, self.clocks, decoder, cx)
    }

    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        let call = Call::new(&self.options.name, "*");
        let answer = ask(&self.endpoint, call, "/models", Vec::new(), None, cx).await?;
        // Most wrap the list in `data`; some do not.
        let listed = answer.get("data").unwrap_or(&answer).as_array();
        let model = |entry: &Value| {
            let mut model = self.known(entry.get("id")?.as_str()?);
            let number =
                |path: &&str| entry.pointer(path).and_then(Value::as_u64).filter(|number| *number > 0);
            model.window = WINDOWS.iter().find_map(number).or(model.window);
            model.max_output = OUTPUTS.iter().find_map(number).or(model.max_output);
            Some(model)
        };
        Ok(listed.map(|listed| listed.iter().filter_map(model).collect()))
    }
}

/// Where servers say how large the window of a listed model is. (What llama.cpp calls `n_ctx_train` is the
/// model's window, not the server's.)
const WINDOWS: &[&str] =
    &["/context_length", "/context_window", "/max_model_len", "/max_context_length", "/meta/n_ctx"];
/// And how long its answers may be.
const OUTPUTS: &[&str] =
    &["/top_provider/max_completion_tokens", "/max_completion_tokens", "/max_output_tokens"];
