//! The Messages API of Anthropic, which other servers speak too.

mod request;
mod stream;
mod thinking;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::HeaderValue;
use secrecy::ExposeSecret;
use serde_json::{Map, Value};
use zk_core::kernel::Cx;
use zk_core::model::{Capabilities, ErrorKind, IdRule, Model, ProviderError, ThinkingReplay, WireRules};
use zk_core::service::{EventStream, Provider, Request};

use crate::catalogue;
use crate::clocks::Clocks;
use crate::endpoint::{Endpoint, SetupError};
use crate::exchange::{Outgoing, ask, exchange};
use crate::fault::{Call, Fault};
use crate::http::Http;
use crate::prefix::{Head, Prefixes};
use crate::secret::{Auth, Secret};

pub(crate) use stream::{Decoder, unreadable};

/// How long the provider keeps what it has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheTtl {
    /// Five minutes from the last use.
    #[default]
    FiveMinutes,
    /// An hour, for a higher price of writing.
    OneHour,
}

/// Settings of [`Anthropic`].
#[derive(Clone)]
pub struct AnthropicOptions {
    /// The provider's name in this program: `anthropic`.
    pub name: String,
    /// Where the API is, without `/v1`: `https://api.anthropic.com`.
    pub base_url: String,
    /// The API key or token.
    pub auth: Auth,
    /// The `anthropic-version` header: `2023-06-01`.
    pub version: String,
    /// More values for the `anthropic-beta` header.
    pub betas: Vec<String>,
    /// More fields for the request body; they win over those zk sends.
    pub extra_body: Map<String, Value>,
    /// More headers.
    pub extra_headers: Vec<(String, String)>,
    /// How long a cached prefix is kept.
    pub cache_ttl: CacheTtl,
    /// How long to wait; by the base URL unless set.
    pub clocks: Option<Clocks>,
    /// The model used when none is asked for.
    pub default_model: Option<String>,
    /// The HTTP clients.
    pub http: Http,
}

impl Default for AnthropicOptions {
    fn default() -> Self {
        Self {
            name: "anthropic".to_owned(),
            base_url: "https://api.anthropic.com".to_owned(),
            auth: Auth::None,
            version: "2023-06-01".to_owned(),
            betas: Vec::new(),
            extra_body: Map::new(),
            extra_headers: Vec::new(),
            cache_ttl: CacheTtl::default(),
            clocks: None,
            default_model: Some("claude-sonnet-5-5".to_owned()),
            http: Http::new(),
        }
    }
}

impl AnthropicOptions {
    /// The usual settings with an API key.
    pub fn with_key(key: impl Into<Secret>) -> Self {
        Self { auth: Auth::Key(key.into()), ..Self::default() }
    }
}

impl fmt::Debug for AnthropicOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicOptions")
            .field("name", &self.name)
            .field("auth", &self.auth)
            .field("version", &self.version)
            .field("betas", &self.betas)
            .finish_non_exhaustive()
    }
}

/// A provider that speaks Anthropic's Messages API.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Anthropic, AnthropicOptions};
///
/// let claude = Anthropic::new(AnthropicOptions::with_key("sk-ant-…"))?;
/// assert_eq!(claude.model("claude-opus-5").window, Some(1_000_000));
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
pub struct Anthropic {
    options: AnthropicOptions,
    endpoint: Arc<Endpoint>,
    clocks: Clocks,
    headers: Vec<(&'static str, HeaderValue)>,
    prefixes: Prefixes,
}

impl fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anthropic").field("options", &self.options).finish_non_exhaustive()
    }
}

const MESSAGES: &str = "/v1/messages";

impl Anthropic {
    /// The provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(mut options: AnthropicOptions) -> Result<Self, SetupError> {
        let auth = std::mem::take(&mut options.auth);
        let mut betas = options.betas.clone();
        if is_subscription(&auth) {
            betas.push("oauth-2025-04-20".to_owned());
        }
        let mut seen = Vec::new();
        betas.retain(|beta| {
            !beta.is_empty() && !seen.contains(beta) && {
                seen.push(beta.clone());
                true
            }
        });
        let mut headers = vec![("anthropic-version", header("anthropic-version", &options.version)?)];
        if !betas.is_empty() {
            headers.push(("anthropic-beta", header("anthropic-beta", &betas.join(","))?));
        }
        let endpoint = Endpoint::new(
            &options.base_url,
            &[MESSAGES, "/v1"],
            auth,
            Some("x-api-key"),
            &options.extra_headers,
            options.http.clone(),
        )?;
        let usual = if endpoint.is_loopback() { Clocks::local() } else { Clocks::remote() };
        let clocks = options.clocks.unwrap_or(usual);
        Ok(Self { options, endpoint: Arc::new(endpoint), clocks, headers, prefixes: Prefixes::default() })
    }

    fn body(&self, request: &Request, count_only: bool) -> Result<Bytes, Fault> {
        let forced = request::is_forced(request);
        let history = request.history.messages();
        let ask = thinking::ask(&request.model, request.thinking, request.max_tokens, forced, history);
        let mark = request.cache.then(|| request::CacheControl::new(self.options.cache_ttl));
        let body = request::Body { request, mark, ask, extra: &self.options.extra_body, count_only };
        let body = if count_only {
            Prefixes::default().body(Head::of(request), history, &body)
        } else {
            self.prefixes.body(Head::of(request), history, &body)
        };
        body.map_err(|error| {
            Fault::new(ErrorKind::Rejected, format!("the request cannot be written: {error}"))
        })
    }

    fn known(&self, id: &str) -> Model {
        let mut model = catalogue::find(Some("anthropic"), id)
            .map_or_else(|| Model::unknown(&*self.options.name, id), |row| row.model(&self.options.name, id));
        let thinking = thinking::support(id);
        model.capabilities = Capabilities { image_in_tool_result: true, thinking, ..model.capabilities };
        model
    }
}

#[async_trait]
impl Provider for Anthropic {
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
            target: model.reference(),
            ids: IdRule::UP_TO_64,
            vision: model.capabilities.vision,
            image_in_tool_result: model.capabilities.image_in_tool_result,
            thinking: ThinkingReplay::Signed,
        }
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let call = Call::new(&self.options.name, &request.model.id);
        let outgoing = self.body(&request, false).map(|body| Outgoing {
            path: MESSAGES.into(),
            headers: self.headers.clone(),
            body,
        });
        let decoder = Decoder::new(request.model.reference());
        exchange(self.endpoint.clone(), call, outgoing, self.clocks, decoder, cx)
    }

    async fn count_tokens(&self, request: Request, cx: &Cx) -> Result<Option<u64>, ProviderError> {
        let call = Call::new(&self.options.name, &request.model.id);
        let body = self.body(&request, true);
        let headers = self.headers.clone();
        let answer = ask(&self.endpoint, call, "/v1/messages/count_tokens", headers, Some(body), cx).await?;
        Ok(answer.get("input_tokens").and_then(Value::as_u64))
    }

    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        let call = Call::new(&self.options.name, "*");
        let answer =
            ask(&self.endpoint, call, "/v1/models?limit=1000", self.headers.clone(), None, cx).await?;
        let listed = answer.get("data").and_then(Value::as_array);
        let model = |entry: &Value| {
            let mut model = self.known(entry.get("id")?.as_str()?);
            let number = |name: &str| entry.get(name).and_then(Value::as_u64).filter(|number| *number > 0);
            model.window = number("max_input_tokens").or(model.window);
            model.max_output = number("max_tokens").or(model.max_output);
            Some(model)
        };
        Ok(listed.map(|listed| listed.iter().filter_map(model).collect()))
    }
}

fn header(name: &str, value: &str) -> Result<HeaderValue, SetupError> {
    HeaderValue::from_str(value.trim()).map_err(|_| SetupError::Header { name: name.to_owned() })
}

/// Tokens of a sign-in need a beta of their own.
fn is_subscription(auth: &Auth) -> bool {
    match auth {
        Auth::Bearer(token) => token.expose_secret().trim().starts_with("sk-ant-oat"),
        Auth::Source(_) => true,
        Auth::None | Auth::Key(_) | Auth::Header { .. } => false,
    }
}
