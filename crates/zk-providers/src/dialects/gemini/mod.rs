//! The Gemini API of Google, on the developer service and on Vertex.

mod chunk;
mod finish;
mod partial_args;
mod parts;
mod quota;
mod request;
mod schema;
mod small_list;
mod stream;
#[cfg(test)]
mod tests;
mod text_run;
mod thinking;
mod tool_names;

use async_trait::async_trait;
use serde_json::Value;
use zk_core::model::{Capabilities, IdRule, MediaTypes, Model, ProviderError, ThinkingReplay, WireRules};
use zk_core::service::Request;

use crate::catalogue::{places, vendors};
use crate::encode::size;
use crate::wire::connection::Connection;
use crate::wire::endpoint::SetupError;
use crate::wire::{
    ApiClient, Attempt, BaseUrl, CountRequest, Decode, Dialect, HttpProvider, ModelList, WireError,
    WireRequest,
};

pub(crate) use stream::Decoder;

/// A provider that uses the Gemini API. Its base URL ends with the API's version. For Vertex it ends with
/// `/publishers/google`, and the key is a bearer token.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::Gemini;
///
/// let gemini = Gemini::new(Gemini::connection().key("AIza…"))?;
/// assert_eq!(gemini.model("gemini-2.5-pro").max_output, Some(65_536));
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
pub type Gemini = HttpProvider<GeminiDialect>;

/// The dialect of [`Gemini`].
#[derive(Debug)]
pub struct GeminiDialect {
    /// Whether the service can count tokens and list models.
    counts_and_lists: bool,
}

/// The provider's name in the table of models.
const CATALOGUE: &str = vendors::GEMINI.name;

impl Gemini {
    /// Returns the usual connection, without a key.
    #[must_use]
    pub fn connection() -> Connection {
        vendors::GEMINI.connection()
    }

    /// Creates the provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(mut connection: Connection) -> Result<Self, SetupError> {
        connection.base_url = with_version(&connection.base_url);
        let counts_and_lists = places::gemini_counts_and_lists(&connection.base_url);
        Self::with_dialect(connection, GeminiDialect { counts_and_lists })
    }
}

fn body<'a>(client: &'a ApiClient, request: &'a Request, count_only: bool) -> request::Body<'a> {
    let id = bare(&request.model.id);
    let efforts = client.efforts(id, || client.row(CATALOGUE, id));
    request::Body {
        request,
        thinking: thinking::config(&request.model, request.thinking, &efforts, request.max_tokens),
        wants_signatures: thinking::is_third_generation(id),
        output: request.output.as_ref().filter(|_| has_schemas(id, !request.tools.is_empty())),
        extra: client.extra_body(),
        count_only,
    }
}

#[async_trait]
impl Dialect for GeminiDialect {
    const BASE_URL: BaseUrl = BaseUrl { strip: &["/models"], advice: "Google's ends in `/v1beta`" };
    const KEY_HEADER: Option<&'static str> = Some("x-goog-api-key");

    fn model(&self, client: &ApiClient, id: &str) -> Model {
        let id = bare(id);
        let mut model = client.model_of_row(client.row(CATALOGUE, id), id);
        model.capabilities = Capabilities {
            image_in_tool_result: thinking::is_third_generation(id),
            thinking: thinking::support(id).unwrap_or(model.capabilities.thinking),
            ..model.capabilities
        };
        client.overrides().correct(model)
    }

    fn rules(&self, model: &Model) -> WireRules {
        WireRules {
            target: model.reference(),
            ids: IdRule::UP_TO_64,
            vision: model.capabilities.vision,
            media: MediaTypes {
                images: &["image/heic", "image/heif", "image/jpeg", "image/png", "image/webp"],
                documents: &["application/pdf", "text/*"],
                largest_image: None,
            },
            image_in_tool_result: model.capabilities.image_in_tool_result,
            image_in_answer: true,
            thinking: ThinkingReplay::Signed,
            resumes: false,
        }
    }

    fn native_output(&self, model: &Model, _: &Value, with_tools: bool) -> bool {
        has_schemas(bare(&model.id), with_tools)
    }

    fn request(&self, client: &ApiClient, request: &Request) -> Result<WireRequest, WireError> {
        let body = client.body(request, &body(client, request, false))?;
        Ok(WireRequest::post(path(&request.model.id, "streamGenerateContent?alt=sse"), body))
    }

    fn decoder(&self, _: &ApiClient, request: &Request, attempt: Attempt) -> Box<dyn Decode> {
        let decoder = Decoder::new(request.model.reference(), request.tools.clone());
        Box::new(match attempt {
            Attempt::First => decoder.refusing_empty(),
            Attempt::Second => decoder,
        })
    }

    /// These models sometimes give an empty response; a second attempt usually succeeds.
    fn resend_reason(&self, error: &ProviderError, _: &Request) -> Option<String> {
        (error.code.as_deref() == Some(stream::EMPTY)).then(|| error.message.clone())
    }

    fn explain(&self, error: ProviderError, request: &Request) -> ProviderError {
        quota::explain(error, || size::bytes(request))
    }

    fn count_request(
        &self,
        client: &ApiClient,
        request: &Request,
    ) -> Result<Option<CountRequest>, WireError> {
        if !self.counts_and_lists {
            return Ok(None);
        }
        let body = ApiClient::body_once(request, &body(client, request, true))?;
        let request = WireRequest::post(path(&request.model.id, "countTokens"), body);
        Ok(Some(CountRequest { request, field: "totalTokens" }))
    }

    fn model_list(&self) -> Option<ModelList> {
        let list = ModelList { path: "/models?pageSize=1000", field: "models" };
        self.counts_and_lists.then_some(list)
    }

    fn listed_model(&self, client: &ApiClient, entry: &Value) -> Option<Model> {
        let methods = entry.get("supportedGenerationMethods").and_then(Value::as_array);
        if methods.is_some_and(|methods| !methods.iter().any(|method| method == "generateContent")) {
            return None;
        }
        let mut model = self.model(client, entry.get("name")?.as_str()?);
        let number = |name: &str| entry.get(name).and_then(Value::as_u64).filter(|number| *number > 0);
        model.window = number("inputTokenLimit").or(model.window);
        model.max_output = number("outputTokenLimit").or(model.max_output);
        Some(model)
    }
}

/// Whether a model supports structured output. Before Gemini 3, schema and functions exclude each other.
fn has_schemas(id: &str, with_tools: bool) -> bool {
    thinking::is_third_generation(id) || (id.starts_with("gemini-2.5") && !with_tools)
}

/// Returns the name of a model without the prefix in the service's lists.
fn bare(id: &str) -> &str {
    id.strip_prefix("models/").unwrap_or(id)
}

/// Returns the URL path of a model's method; reserved characters of the id are percent-encoded.
fn path(id: &str, method: &str) -> String {
    let mut segment = String::new();
    for char in bare(id).chars() {
        match char {
            '?' | '#' | '%' | ':' | '\\' => segment.push_str(&format!("%{:02X}", u32::from(char))),
            other => segment.push(other),
        }
    }
    let collection = if segment.contains('/') { "" } else { "models/" };
    format!("/{collection}{segment}:{method}")
}

/// Returns `base` with the API's version, added if `base` names only a host.
fn with_version(base: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    let host = base.split_once("://").map_or(base, |(_, host)| host);
    if host.contains('/') { base.to_owned() } else { format!("{base}/v1beta") }
}
