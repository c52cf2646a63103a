//! The Messages API of Anthropic, which other servers implement too.

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
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zk_core::model::{
    Capabilities, IdRule, MediaTypes, Message, Model, ProviderError, ThinkingReplay, WireReady, WireRules,
};
use zk_core::service::Request;

use crate::catalogue::schema_limits;
use crate::catalogue::thinking::has_formats;
use crate::catalogue::vendors;
use crate::encode::compact_at::CompactAt;
use crate::encode::strict_schema;
use crate::wire::connection::Connection;
use crate::wire::endpoint::SetupError;
use crate::wire::{
    ApiClient, Attempt, BaseUrl, CountRequest, Decode, Dialect, Headers, HttpProvider, ModelList, WireError,
    WireRequest,
};
use headers::ApiHeaders;
use rejected_thinking::RejectedThinking;
use thinking::ThinkingParams;
use usage::Pricing;

pub(crate) use blocks::describe_block;
pub(crate) use stream::{Decoder, unreadable};

/// Time for which the provider caches a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheTtl {
    /// Five minutes from the last use.
    #[default]
    FiveMinutes,
    /// An hour, at a higher price for cache writes.
    OneHour,
}

/// Options of [`Anthropic`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnthropicOptions {
    /// Value of the `anthropic-version` header, by default `2023-06-01`. From `2026-10-21` on the API rejects
    /// sampling parameters, so the connection's extra body must not contain any; zk itself never sends any.
    pub version: String,
    /// Additional values of the `anthropic-beta` header. The values that `context_management` requires are
    /// added automatically.
    pub betas: Vec<String>,
    /// Time for which a cached prefix is kept.
    pub cache_ttl: CacheTtl,
    /// Context edits for the provider to make: an object with the list `edits`, sent unchanged.
    pub context_management: Option<Value>,
    /// Default threshold for a compaction in `context_management` that sets none.
    pub compact_at: Option<CompactAt>,
    /// Declarations of tools that the provider runs itself, such as `{"type": "web_search_20250305", "name":
    /// "web_search"}`. Their calls and results stay in the history.
    pub hosted_tools: Vec<Value>,
}

impl Default for AnthropicOptions {
    fn default() -> Self {
        Self {
            version: "2023-06-01".to_owned(),
            betas: Vec::new(),
            cache_ttl: CacheTtl::default(),
            context_management: None,
            compact_at: None,
            hosted_tools: Vec::new(),
        }
    }
}

/// A provider that uses Anthropic's Messages API. Its base URL ends before `/v1`.
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
pub type Anthropic = HttpProvider<AnthropicDialect>;

/// The dialect of [`Anthropic`].
#[derive(Debug)]
pub struct AnthropicDialect {
    options: AnthropicOptions,
    headers: ApiHeaders,
    rejected: RejectedThinking,
}

const MESSAGES: &str = "/v1/messages";

impl Anthropic {
    /// Returns the usual connection, without a key.
    #[must_use]
    pub fn connection() -> Connection {
        vendors::ANTHROPIC.connection()
    }

    /// Creates the provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(connection: Connection, options: AnthropicOptions) -> Result<Self, SetupError> {
        let mut connection = connection;
        let headers = ApiHeaders::prepare(&mut connection, &options)?;
        let rejected = RejectedThinking::default();
        Self::with_dialect(connection, AnthropicDialect { options, headers, rejected })
    }
}

impl AnthropicDialect {
    fn thinking(&self, client: &ApiClient, request: &Request) -> ThinkingParams {
        let id = &*request.model.id;
        let efforts = client.efforts(id, || client.row(CATALOGUE, id));
        thinking::params(request, &efforts, request::is_forced(request))
    }

    fn body<'a>(
        &'a self,
        client: &'a ApiClient,
        request: &'a Request,
        thinking: ThinkingParams,
        count_only: bool,
    ) -> request::Body<'a> {
        let mark = request.cache.then(|| cache_marks::CacheControl::new(self.options.cache_ttl));
        let extra = client.extra_body();
        request::Body { request, mark, thinking, extra, options: &self.options, count_only }
    }
}

/// The provider's name in the table of models.
const CATALOGUE: &str = vendors::ANTHROPIC.name;

fn known_model(client: &ApiClient, id: &str) -> Model {
    let mut model = client.model_of_row(client.row(CATALOGUE, id), id);
    let thinking = thinking::support(id).unwrap_or(model.capabilities.thinking);
    model.capabilities = Capabilities { image_in_tool_result: true, thinking, ..model.capabilities };
    client.overrides().correct(model)
}

#[async_trait]
impl Dialect for AnthropicDialect {
    const BASE_URL: BaseUrl = BaseUrl { strip: &[MESSAGES, "/v1"], advice: "It ends before `/v1/messages`" };
    const KEY_HEADER: Option<&'static str> = Some("x-api-key");

    fn model(&self, client: &ApiClient, id: &str) -> Model {
        known_model(client, id)
    }

    fn rules(&self, model: &Model) -> WireRules {
        rules(model)
    }

    fn native_output(&self, model: &Model, schema: &Value, _: bool) -> bool {
        has_formats(&model.id) && strict_schema::strict(schema, schema_limits::MESSAGES).is_some()
    }

    /// Changed thinking keeps the cache of tools and system prompt, but not that of the messages.
    fn thinking_breaks_prefix(&self, _: &Model) -> bool {
        true
    }

    fn prepare(&self, mut request: Request) -> Request {
        request.history = self.rejected.remove_from(request.history);
        request
    }

    fn request(&self, client: &ApiClient, request: &Request) -> Result<WireRequest, WireError> {
        let thinking = self.thinking(client, request);
        let headers = self.headers.of(thinking::interleaves(&thinking, request));
        let body = client.body(request, &self.body(client, request, thinking, false))?;
        Ok(WireRequest::post(MESSAGES, body).with_headers(headers))
    }

    fn decoder(&self, client: &ApiClient, request: &Request, _: Attempt) -> Box<dyn Decode> {
        let client = client.clone();
        let pricing = Pricing {
            asked: request.model.id.clone(),
            prices: request.model.prices.clone(),
            of_others: Box::new(move |id| known_model(&client, id).prices),
        };
        Box::new(Decoder::new(request.model.reference()).priced(pricing))
    }

    fn resend_reason(&self, error: &ProviderError, request: &Request) -> Option<String> {
        let is_new =
            rejected_thinking::is_about_thinking(error) && self.rejected.insert_all(&request.history);
        is_new.then(|| format!("{}; it is sent again without the thinking so far", error.message))
    }

    fn count_request(
        &self,
        client: &ApiClient,
        request: &Request,
    ) -> Result<Option<CountRequest>, WireError> {
        let thinking = self.thinking(client, request);
        let body = ApiClient::body_once(request, &self.body(client, request, thinking, true))?;
        let request = WireRequest::post("/v1/messages/count_tokens", body).with_headers(self.headers());
        Ok(Some(CountRequest { request, field: "input_tokens" }))
    }

    fn model_list(&self) -> Option<ModelList> {
        Some(ModelList { path: "/v1/models?limit=1000", field: "data" })
    }

    fn headers(&self) -> Headers {
        self.headers.of(false)
    }

    fn listed_model(&self, client: &ApiClient, entry: &Value) -> Option<Model> {
        let mut model = known_model(client, entry.get("id")?.as_str()?);
        let number = |name: &str| entry.get(name).and_then(Value::as_u64).filter(|number| *number > 0);
        model.window = number("max_input_tokens").or(model.window);
        model.max_output = number("max_tokens").or(model.max_output);
        Some(model)
    }
}

/// Converts a conversation for `model`: returns the system prompt if there is one, the messages, and the
/// normalised history.
pub(crate) fn conversation(
    model: &Model,
    system: &str,
    history: &[Arc<Message>],
) -> serde_json::Result<(Option<Value>, Vec<Value>, WireReady)> {
    let ready = WireReady::normalise(history, &rules(model));
    let (system, messages) = request::conversation(system, ready.messages())?;
    Ok((system, messages, ready))
}

/// Size limit of an image in base64 bytes. A larger image makes the whole request fail.
const MAX_IMAGE_BYTES: usize = 5 << 20;

fn rules(model: &Model) -> WireRules {
    WireRules {
        target: model.reference(),
        ids: IdRule::UP_TO_64,
        vision: model.capabilities.vision,
        media: MediaTypes {
            images: MediaTypes::WEB,
            documents: &["application/pdf", "text/*"],
            largest_image: Some(MAX_IMAGE_BYTES),
        },
        image_in_tool_result: model.capabilities.image_in_tool_result,
        image_in_answer: false,
        thinking: ThinkingReplay::Signed,
        resumes: true,
    }
}
