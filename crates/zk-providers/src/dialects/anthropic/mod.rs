//! The Messages API of Anthropic, which other servers speak too.

mod blocks;
mod cache_marks;
mod context;
mod headers;
mod hosted;
mod rejected_thinking;
mod report;
mod request;
mod stream;
mod thinking;
mod usage;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::kernel::Cx;
use zk_core::model::{
    Capabilities, IdRule, MediaTypes, Message, Model, ProviderError, ThinkingReplay, WireReady, WireRules,
};
use zk_core::service::{EventStream, Provider, Request};

use crate::encode::strict_schema;
use crate::facts::vendors;
use crate::wire::client::ApiClient;
use crate::wire::connection::Connection;
use crate::wire::endpoint::{BaseUrl, SetupError};
use crate::wire::error::WireError;
use crate::wire::exchange::{WireRequest, named};
use crate::wire::resend::retry_once;
use headers::Headers;
use rejected_thinking::{Refused, is_about_thinking};
use usage::Pricing;

pub(crate) use blocks::told;
pub(crate) use stream::{Decoder, unreadable};

/// How long the provider keeps what it has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheTtl {
    /// Five minutes from the last use.
    #[default]
    FiveMinutes,
    /// An hour, for a higher price of writing.
    OneHour,
}

/// Settings of [`Anthropic`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnthropicOptions {
    /// The `anthropic-version` header: `2023-06-01`. From `2026-10-21` on the API takes no sampling parameters,
    /// so the connection's extra body may name none; zk itself sends none under any version.
    pub version: String,
    /// More values for the `anthropic-beta` header. What `context_management` needs is added to them.
    pub betas: Vec<String>,
    /// How long a cached prefix is kept.
    pub cache_ttl: CacheTtl,
    /// How the provider is to edit the context itself: an object with the list `edits`, sent as it is.
    pub context_management: Option<Value>,
    /// Tools that run at the provider's, as the API declares them, such as
    /// `{"type": "web_search_20250305", "name": "web_search"}`. Their calls and results stay in the history.
    pub hosted_tools: Vec<Value>,
}

impl Default for AnthropicOptions {
    fn default() -> Self {
        Self {
            version: "2023-06-01".to_owned(),
            betas: Vec::new(),
            cache_ttl: CacheTtl::default(),
            context_management: None,
            hosted_tools: Vec::new(),
        }
    }
}

/// A provider that speaks Anthropic's Messages API. Its base URL ends before `/v1`.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Anthropic, AnthropicOptions};
///
/// let connection = Anthropic::connection().key("sk-ant-…");
/// let claude = Anthropic::new(connection, AnthropicOptions::default())?;
/// assert_eq!(claude.model("claude-opus-5").window, Some(1_000_000));
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Anthropic {
    client: Arc<ApiClient>,
    options: Arc<AnthropicOptions>,
    headers: Arc<Headers>,
    refused: Arc<Refused>,
}

const MESSAGES: &str = "/v1/messages";
const BASE_URL: BaseUrl = BaseUrl { strip: &[MESSAGES, "/v1"], advice: "It ends before `/v1/messages`" };

impl Anthropic {
    /// The usual connection, which lacks only a key.
    #[must_use]
    pub fn connection() -> Connection {
        vendors::ANTHROPIC.connection()
    }

    /// The provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(connection: Connection, options: AnthropicOptions) -> Result<Self, SetupError> {
        let mut connection = connection;
        let headers = Headers::prepare(&mut connection, &options)?;
        let client = ApiClient::new(connection, BASE_URL, Some("x-api-key"))?;
        let (client, options, headers) = (Arc::new(client), Arc::new(options), Arc::new(headers));
        Ok(Self { client, options, headers, refused: Arc::default() })
    }

    fn ask(&self, request: &Request) -> thinking::Ask {
        let id = &*request.model.id;
        let efforts = self.client.efforts(id, || self.client.row("anthropic", id));
        thinking::ask(request, &efforts, request::is_forced(request))
    }

    fn body(&self, request: &Request, ask: thinking::Ask, count_only: bool) -> Result<Bytes, WireError> {
        let mark = request.cache.then(|| cache_marks::CacheControl::new(self.options.cache_ttl));
        let extra = self.client.extra_body();
        let body = request::Body { request, mark, ask, extra, options: &self.options, count_only };
        if count_only { ApiClient::body_once(request, &body) } else { self.client.body(request, &body) }
    }

    fn send(&self, request: &Request, cx: &Cx) -> EventStream {
        let ask = self.ask(request);
        let headers = named(self.headers.of(thinking::interleaves(&ask, request)));
        let outgoing =
            self.body(request, ask, false).map(|body| WireRequest { path: MESSAGES.into(), headers, body });
        let decoder = Decoder::new(request.model.reference()).priced(self.pricing(request));
        self.client.stream(&request.model.id, outgoing, decoder, cx)
    }

    /// What an answer to `request` costs, whoever has a part in it.
    fn pricing(&self, request: &Request) -> Pricing {
        let client = self.client.clone();
        Pricing {
            asked: request.model.id.clone(),
            prices: request.model.prices.clone(),
            of_others: Box::new(move |id| known(&client, id).prices),
        }
    }
}

fn known(client: &ApiClient, id: &str) -> Model {
    let mut model = client.described(client.row("anthropic", id), id);
    let thinking = thinking::support(id).unwrap_or(model.capabilities.thinking);
    model.capabilities = Capabilities { image_in_tool_result: true, thinking, ..model.capabilities };
    client.models().correct(model)
}

#[async_trait]
impl Provider for Anthropic {
    fn name(&self) -> &str {
        self.client.name()
    }

    fn model(&self, id: &str) -> Model {
        known(&self.client, id)
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
        rules(model)
    }

    fn native_output(&self, model: &Model, schema: &Value, _: bool) -> bool {
        thinking::has_formats(&model.id) && strict_schema::strict(schema, strict_schema::ANTHROPIC).is_some()
    }

    fn stream(&self, mut request: Request, cx: &Cx) -> EventStream {
        request.history = self.refused.left_out(request.history);
        let first = self.send(&request, cx);
        let (claude, model, inner) = (self.clone(), request.model.reference(), cx.clone());
        let again = move |error: &ProviderError| {
            if !is_about_thinking(error) || !claude.refused.note(&request.history) {
                return None;
            }
            request.history = claude.refused.left_out(request.history);
            let why = format!("{}; it is sent again without the thinking so far", error.message);
            Some((why, claude.send(&request, &inner)))
        };
        retry_once(first, again, model, cx)
    }

    async fn count_tokens(&self, mut request: Request, cx: &Cx) -> Result<Option<u64>, ProviderError> {
        request.history = self.refused.left_out(request.history);
        let body = self.body(&request, self.ask(&request), true);
        let headers = self.headers.of(false);
        let path = "/v1/messages/count_tokens";
        let answer = self.client.ask(&request.model.id, path, headers, Some(body), cx).await?;
        Ok(answer.get("input_tokens").and_then(Value::as_u64))
    }

    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        let answer = self.client.ask("*", "/v1/models?limit=1000", self.headers.of(false), None, cx).await?;
        let listed = answer.get("data").and_then(Value::as_array);
        let model = |entry: &Value| {
            let mut model = known(&self.client, entry.get("id")?.as_str()?);
            let number = |name: &str| entry.get(name).and_then(Value::as_u64).filter(|number| *number > 0);
            model.window = number("max_input_tokens").or(model.window);
            model.max_output = number("max_tokens").or(model.max_output);
            Some(self.client.models().correct(model))
        };
        Ok(listed.map(|listed| listed.iter().filter_map(model).collect()))
    }
}

/// A conversation as `model` takes it: the system prompt, if there is one, the messages, and the history they
/// stand for.
pub(crate) fn conversation(
    model: &Model,
    system: &str,
    history: &[Arc<Message>],
) -> serde_json::Result<(Option<Value>, Vec<Value>, WireReady)> {
    let ready = WireReady::normalise(history, &rules(model));
    let (system, messages) = request::conversation(system, ready.messages())?;
    Ok((system, messages, ready))
}

/// The most bytes of an image, counted as they are sent. One that is larger is an error of the whole request.
const LARGEST_IMAGE: usize = 5 << 20;

fn rules(model: &Model) -> WireRules {
    WireRules {
        target: model.reference(),
        ids: IdRule::UP_TO_64,
        vision: model.capabilities.vision,
        media: MediaTypes {
            images: MediaTypes::WEB,
            documents: &["application/pdf", "text/*"],
            largest_image: Some(LARGEST_IMAGE),
        },
        image_in_tool_result: model.capabilities.image_in_tool_result,
        image_in_answer: false,
        thinking: ThinkingReplay::Signed,
        resumes: true,
    }
}
