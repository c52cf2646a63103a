//! The Responses API of OpenAI, its Codex back end, and the servers that imitate it.

mod blocks;
mod echo;
mod finish;
mod input;
mod item;
mod options;
mod request;
mod stream;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::HeaderValue;
use serde_json::Value;
use zk_core::kernel::Cx;
use zk_core::model::{
    Capabilities, IdRule, MediaTypes, Model, ProviderError, ThinkingReplay, ThinkingSupport, WireRules,
};
use zk_core::service::{EventStream, Provider, Request, ToolChoice};

use crate::encode::strict_schema;
use crate::facts::catalogue::Row;
use crate::facts::tiers::Tiers;
use crate::facts::vendors;
use crate::wire::client::ApiClient;
use crate::wire::connection::Connection;
use crate::wire::endpoint::{BaseUrl, SetupError};
use crate::wire::error::WireError;
use crate::wire::exchange::{WireRequest, named};

pub use options::{ResponsesBackend, ResponsesOptions};
pub(crate) use stream::Decoder;

/// A provider that speaks OpenAI's Responses API. Its base URL has the `/v1` where the server has it.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Responses, ResponsesOptions};
///
/// let openai = Responses::new(Responses::connection().key("sk-…"), ResponsesOptions::default())?;
/// assert_eq!(openai.model("gpt-5.2").window, Some(400_000));
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
#[derive(Debug)]
pub struct Responses {
    client: ApiClient,
    options: ResponsesOptions,
    headers: Vec<(&'static str, HeaderValue)>,
}

const RESPONSES: &str = "/responses";
const BASE_URL: BaseUrl = BaseUrl { strip: &[RESPONSES], advice: "Many need `/v1` at the end" };

impl Responses {
    /// The usual connection, which lacks only a key.
    #[must_use]
    pub fn connection() -> Connection {
        vendors::OPENAI.connection()
    }

    /// The usual connection to the Codex back end, which lacks only the access token of a subscription and its
    /// account.
    #[must_use]
    pub fn codex_connection() -> Connection {
        vendors::CODEX.connection()
    }

    /// The provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key, the account or a header cannot be used.
    pub fn new(connection: Connection, options: ResponsesOptions) -> Result<Self, SetupError> {
        let headers = match options.backend {
            ResponsesBackend::Codex => {
                let account = connection.account.as_deref().unwrap_or_default().trim();
                let account = HeaderValue::from_str(account).ok().filter(|account| !account.is_empty());
                let account = account.ok_or(SetupError::Account { name: connection.name.clone() })?;
                vec![
                    ("chatgpt-account-id", account),
                    ("originator", HeaderValue::from_static("zk")),
                    ("openai-beta", HeaderValue::from_static("responses=experimental")),
                ]
            }
            ResponsesBackend::Api | ResponsesBackend::Compatible => Vec::new(),
        };
        Ok(Self { client: ApiClient::new(connection, BASE_URL, None)?, options, headers })
    }

    fn body(&self, request: &Request, count_only: bool) -> Result<Bytes, WireError> {
        let id = &*request.model.id;
        let efforts = &self.client.efforts(id, || self.row(id));
        let body = request::Body {
            request,
            options: &self.options,
            extra: self.client.extra_body(),
            efforts,
            count_only,
        };
        if count_only { ApiClient::body_once(request, &body) } else { self.client.body(request, &body) }
    }

    /// Codex finds the conversation again by headers too.
    fn headers(&self, request: &Request) -> Vec<(&'static str, HeaderValue)> {
        let mut headers = self.headers.clone();
        if let ResponsesBackend::Codex = self.options.backend
            && let Some(key) = request::cache_key(request).and_then(|key| HeaderValue::from_str(&key).ok())
        {
            headers.push(("session-id", key.clone()));
            headers.push(("x-client-request-id", key));
        }
        headers
    }

    /// A server that cannot be told which tool to call is offered no other.
    fn narrowed(&self, mut request: Request) -> Request {
        if self.options.backend == ResponsesBackend::Compatible
            && let ToolChoice::Tool(name) = &request.tool_choice
        {
            request.tools = request.tools.iter().filter(|tool| tool.name == *name).cloned().collect();
        }
        request
    }

    fn known(&self, id: &str) -> Model {
        let name = self.client.name();
        let mut model = match self.row(id) {
            Some(row) => row.model(name, id),
            None => {
                let mut model = Model::unknown(name, id);
                // Nearly every model behind this API reasons.
                model.capabilities.thinking = ThinkingSupport::Effort;
                model
            }
        };
        let is_compatible = self.options.backend == ResponsesBackend::Compatible;
        if is_compatible {
            // OpenAI's prices are not this server's.
            model.prices = None;
        }
        model.capabilities = Capabilities { image_in_tool_result: !is_compatible, ..model.capabilities };
        self.client.models().correct(model)
    }

    /// What is known of a model, whether or not a gateway puts the vendor before its name.
    fn row(&self, id: &str) -> Option<Row> {
        let bare = id.rsplit('/').next().unwrap_or(id);
        self.client.row("openai", id).or_else(|| self.client.row("openai", bare))
    }
}

#[async_trait]
impl Provider for Responses {
    fn name(&self) -> &str {
        self.client.name()
    }

    fn model(&self, id: &str) -> Model {
        self.known(id)
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
                images: MediaTypes::WEB,
                documents: match self.options.backend {
                    ResponsesBackend::Api | ResponsesBackend::Codex => &["*"],
                    ResponsesBackend::Compatible => &["text/*"],
                },
                largest_image: None,
            },
            image_in_tool_result: model.capabilities.image_in_tool_result,
            image_in_answer: false,
            thinking: match self.options.backend {
                ResponsesBackend::Api | ResponsesBackend::Codex => ThinkingReplay::Signed,
                ResponsesBackend::Compatible if self.options.echo_reasoning => ThinkingReplay::Echo,
                ResponsesBackend::Compatible => ThinkingReplay::Never,
            },
            resumes: self.options.backend != ResponsesBackend::Compatible,
        }
    }

    fn native_output(&self, _: &Model, schema: &Value, _: bool) -> bool {
        self.options.backend != ResponsesBackend::Compatible
            && strict_schema::strict(schema, strict_schema::OPENAI).is_some()
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let request = self.narrowed(request);
        let headers = named(self.headers(&request));
        let outgoing =
            self.body(&request, false).map(|body| WireRequest { path: RESPONSES.into(), headers, body });
        // The others say so themselves when the limit was reached.
        let is_silent = self.options.backend == ResponsesBackend::Compatible;
        let limit = request::limit(&request, self.options.backend).filter(|_| is_silent);
        let mut decoder = Decoder::new(request.model.reference(), limit);
        if self.options.backend == ResponsesBackend::Api {
            decoder = decoder.in_tiers(Tiers::of("openai", &request.model));
        }
        self.client.stream(&request.model.id, outgoing, decoder, cx)
    }

    async fn count_tokens(&self, request: Request, cx: &Cx) -> Result<Option<u64>, ProviderError> {
        if self.options.backend != ResponsesBackend::Api {
            return Ok(None);
        }
        let body = self.body(&request, true);
        let path = "/responses/input_tokens";
        let answer = self.client.ask(&request.model.id, path, Vec::new(), Some(body), cx).await?;
        Ok(answer.get("input_tokens").and_then(Value::as_u64))
    }

    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        if let ResponsesBackend::Codex = self.options.backend {
            return Ok(None);
        }
        let answer = self.client.ask("*", "/models", Vec::new(), None, cx).await?;
        let listed = answer.get("data").and_then(Value::as_array);
        let model = |entry: &Value| {
            let mut model = self.known(entry.get("id")?.as_str()?);
            let window = entry.pointer("/meta/n_ctx").or_else(|| entry.get("context_length"));
            model.window = window.and_then(Value::as_u64).filter(|size| *size > 0).or(model.window);
            Some(self.client.models().correct(model))
        };
        Ok(listed.map(|listed| listed.iter().filter_map(model).collect()))
    }
}
