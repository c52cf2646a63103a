//! The Responses API of OpenAI, its back end for ChatGPT subscriptions, and compatible servers.

mod blocks;
mod finish;
mod input;
mod item;
mod options;
mod replay_data;
mod request;
mod stream;

use async_trait::async_trait;
use serde_json::Value;
use zk_core::model::{Capabilities, IdRule, MediaTypes, Model, ThinkingReplay, ThinkingSupport, WireRules};
use zk_core::service::{Request, ToolChoice};

use crate::catalogue::models::Row;
use crate::catalogue::tiers::Tiers;
use crate::catalogue::{names, schema_limits, vendors};
use crate::encode::effort::Efforts;
use crate::encode::strict_schema;
use crate::wire::connection::Connection;
use crate::wire::embeddings::EMBEDDINGS;
use crate::wire::endpoint::SetupError;
use crate::wire::{
    ApiClient, Attempt, BaseUrl, CountRequest, Decode, Dialect, Headers, HttpProvider, ModelList, WireError,
    WireRequest,
};

pub use options::{ResponsesBackend, ResponsesOptions};
pub(crate) use stream::Decoder;

/// A provider that uses OpenAI's Responses API. Its base URL includes `/v1` if the server has it.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Responses, ResponsesOptions};
///
/// let openai = Responses::new(Responses::connection().key("sk-…"), ResponsesOptions::default())?;
/// assert_eq!(openai.model("gpt-5.2").window, Some(400_000));
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
pub type Responses = HttpProvider<ResponsesDialect>;

/// The dialect of [`Responses`].
#[derive(Debug)]
pub struct ResponsesDialect {
    options: ResponsesOptions,
    headers: Headers,
}

const RESPONSES: &str = "/responses";
/// Name of the API's vendor in the table of models.
const CATALOGUE: &str = vendors::RESPONSES.name;

impl Responses {
    /// Returns the usual connection, without a key.
    #[must_use]
    pub fn connection() -> Connection {
        vendors::RESPONSES.connection()
    }

    /// Returns the usual connection to the back end for subscriptions, without an access token and account.
    #[must_use]
    pub fn subscription_connection() -> Connection {
        vendors::SUBSCRIPTION.connection()
    }

    /// Creates the provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key, the account or a header cannot be used.
    pub fn new(connection: Connection, options: ResponsesOptions) -> Result<Self, SetupError> {
        let mut headers = Headers::new();
        match options.backend {
            ResponsesBackend::Subscription => {
                let account = connection.account.as_deref().unwrap_or_default().trim();
                let no_account = || SetupError::Account { name: connection.name.clone() };
                if account.is_empty() {
                    return Err(no_account());
                }
                headers.insert(names::SUBSCRIPTION_ACCOUNT, account).map_err(|_| no_account())?;
                for (name, value) in names::SUBSCRIPTION_HEADERS {
                    headers.insert(name, value)?;
                }
            }
            ResponsesBackend::Api | ResponsesBackend::Compatible => {}
        }
        Self::with_dialect(connection, ResponsesDialect { options, headers })
    }
}

impl ResponsesDialect {
    fn is_compatible(&self) -> bool {
        self.options.backend == ResponsesBackend::Compatible
    }

    fn body<'a>(
        &'a self,
        client: &'a ApiClient,
        request: &'a Request,
        efforts: &'a Efforts,
        count_only: bool,
    ) -> request::Body<'a> {
        request::Body { request, options: &self.options, extra: client.extra_body(), efforts, count_only }
    }

    fn efforts(&self, client: &ApiClient, request: &Request) -> Efforts {
        client.efforts(&request.model.id, || catalogue_row(client, &request.model.id))
    }

    /// Returns the headers by which the back end for subscriptions recognises the conversation.
    fn headers_of(&self, request: &Request) -> Headers {
        let mut headers = self.headers.clone();
        if let ResponsesBackend::Subscription = self.options.backend
            && let Some(key) = request::cache_key(request)
        {
            for name in ["session-id", "x-client-request-id"] {
                // A key that is no valid header value is left out.
                let _ = headers.insert(name, &key);
            }
        }
        headers
    }
}

/// Finds the row of a model, with or without a gateway's vendor prefix.
fn catalogue_row(client: &ApiClient, id: &str) -> Option<Row> {
    let bare = id.rsplit('/').next().unwrap_or(id);
    client.row(CATALOGUE, id).or_else(|| client.row(CATALOGUE, bare))
}

#[async_trait]
impl Dialect for ResponsesDialect {
    const BASE_URL: BaseUrl = BaseUrl { strip: &[RESPONSES], advice: "Many need `/v1` at the end" };

    fn model(&self, client: &ApiClient, id: &str) -> Model {
        let name = client.name();
        let mut model = match catalogue_row(client, id) {
            Some(row) => row.model(name, id),
            None => {
                let mut model = Model::unknown(name, id);
                // Nearly every model behind this API reasons.
                model.capabilities.thinking = ThinkingSupport::Effort;
                model
            }
        };
        if self.is_compatible() {
            // Prices of the vendor's own service do not apply to this server.
            model.prices = None;
        }
        model.capabilities =
            Capabilities { image_in_tool_result: !self.is_compatible(), ..model.capabilities };
        client.overrides().correct(model)
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules {
            target: model.reference(),
            ids: IdRule::UP_TO_64,
            vision: model.capabilities.vision,
            media: MediaTypes {
                images: MediaTypes::WEB,
                documents: match self.options.backend {
                    ResponsesBackend::Api | ResponsesBackend::Subscription => &["*"],
                    ResponsesBackend::Compatible => &["text/*"],
                },
                largest_image: None,
            },
            image_in_tool_result: model.capabilities.image_in_tool_result,
            image_in_answer: false,
            thinking: match self.options.backend {
                ResponsesBackend::Api | ResponsesBackend::Subscription => ThinkingReplay::Signed,
                ResponsesBackend::Compatible if self.options.echo_reasoning => ThinkingReplay::Echo,
                ResponsesBackend::Compatible => ThinkingReplay::Never,
            },
            resumes: !self.is_compatible(),
        }
    }

    fn native_output(&self, _: &Model, schema: &Value, _: bool) -> bool {
        !self.is_compatible() && strict_schema::strict(schema, schema_limits::COMPLETIONS).is_some()
    }

    /// Offers only the forced tool to a server that cannot be told its name.
    fn prepare(&self, mut request: Request) -> Request {
        if let (true, ToolChoice::Tool(name)) = (self.is_compatible(), &request.tool_choice) {
            request.tools = request.tools.iter().filter(|tool| tool.name == *name).cloned().collect();
        }
        request
    }

    fn request(&self, client: &ApiClient, request: &Request) -> Result<WireRequest, WireError> {
        let efforts = self.efforts(client, request);
        let body = client.body(request, &self.body(client, request, &efforts, false))?;
        Ok(WireRequest::post(RESPONSES, body).with_headers(self.headers_of(request)))
    }

    fn decoder(&self, _: &ApiClient, request: &Request, _: Attempt) -> Box<dyn Decode> {
        // Other back ends report themselves that the limit was reached.
        let limit = request::limit(request, self.options.backend).filter(|_| self.is_compatible());
        let decoder = Decoder::new(request.model.reference(), limit);
        Box::new(match self.options.backend {
            ResponsesBackend::Api => decoder.with_tiers(Tiers::of(CATALOGUE, &request.model)),
            ResponsesBackend::Subscription | ResponsesBackend::Compatible => decoder,
        })
    }

    fn count_request(
        &self,
        client: &ApiClient,
        request: &Request,
    ) -> Result<Option<CountRequest>, WireError> {
        if self.options.backend != ResponsesBackend::Api {
            return Ok(None);
        }
        let efforts = self.efforts(client, request);
        let body = ApiClient::body_once(request, &self.body(client, request, &efforts, true))?;
        let request = WireRequest::post("/responses/input_tokens", body);
        Ok(Some(CountRequest { request, field: "input_tokens" }))
    }

    fn embeddings_path(&self) -> Option<&'static str> {
        (self.options.backend != ResponsesBackend::Subscription).then_some(EMBEDDINGS)
    }

    fn model_list(&self) -> Option<ModelList> {
        let list = ModelList { path: "/models", field: "data" };
        (self.options.backend != ResponsesBackend::Subscription).then_some(list)
    }

    fn listed_model(&self, client: &ApiClient, entry: &Value) -> Option<Model> {
        let mut model = self.model(client, entry.get("id")?.as_str()?);
        let window = entry.pointer("/meta/n_ctx").or_else(|| entry.get("context_length"));
        model.window = window.and_then(Value::as_u64).filter(|size| *size > 0).or(model.window);
        Some(model)
    }
}
