//! The API of Google's Gemini models, on the developer service and on Vertex.

mod chunk;
mod finish;
mod names;
mod partial;
mod parts;
mod quota;
mod request;
mod run;
mod schema;
mod small_list;
mod stream;
#[cfg(test)]
mod tests;
mod thinking;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::Value;
use zk_core::kernel::Cx;
use zk_core::model::{Capabilities, IdRule, MediaTypes, Model, ProviderError, ThinkingReplay, WireRules};
use zk_core::service::{EventStream, Provider, Request};

use crate::encode::size;
use crate::facts::vendors;
use crate::wire::client::ApiClient;
use crate::wire::connection::Connection;
use crate::wire::endpoint::{BaseUrl, SetupError};
use crate::wire::error::WireError;
use crate::wire::exchange::WireRequest;
use crate::wire::resend::retry_once;

pub(crate) use stream::Decoder;

/// A provider that speaks the Gemini API. Its base URL ends with the API's version; for Vertex it ends in
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
#[derive(Debug)]
pub struct Gemini {
    client: Arc<ApiClient>,
    /// Vertex counts and lists in another way.
    is_vertex: bool,
}

impl Gemini {
    /// The usual connection, which lacks only a key.
    #[must_use]
    pub fn connection() -> Connection {
        vendors::GEMINI.connection()
    }

    /// The provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(mut connection: Connection) -> Result<Self, SetupError> {
        connection.base_url = with_version(&connection.base_url);
        let is_vertex = connection.base_url.contains("/publishers/");
        let client = ApiClient::new(connection, BASE_URL, Some("x-goog-api-key"))?;
        Ok(Self { client: Arc::new(client), is_vertex })
    }

    fn body(&self, request: &Request, count_only: bool) -> Result<Bytes, WireError> {
        let id = bare(&request.model.id);
        let efforts = self.client.efforts(id, || self.client.row(CATALOGUE, id));
        let body = request::Body {
            request,
            thinking: thinking::ask(&request.model, request.thinking, &efforts, request.max_tokens),
            wants_signatures: thinking::is_third_generation(id),
            output: request.output.as_ref().filter(|_| has_schemas(id, !request.tools.is_empty())),
            extra: self.client.extra_body(),
            count_only,
        };
        if count_only { ApiClient::body_once(request, &body) } else { self.client.body(request, &body) }
    }

    fn known(&self, id: &str) -> Model {
        let id = bare(id);
        let mut model = self.client.described(self.client.row(CATALOGUE, id), id);
        model.capabilities = Capabilities {
            image_in_tool_result: thinking::is_third_generation(id),
            thinking: thinking::support(id).unwrap_or(model.capabilities.thinking),
            ..model.capabilities
        };
        self.client.models().correct(model)
    }
}

/// The provider's name in the table of models.
const CATALOGUE: &str = "gemini";
const BASE_URL: BaseUrl = BaseUrl { strip: &["/models"], advice: "Google's ends in `/v1beta`" };

#[async_trait]
impl Provider for Gemini {
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

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let outgoing = self.body(&request, false).map(|body| WireRequest {
            path: path(&request.model.id, "streamGenerateContent?alt=sse").into(),
            headers: Vec::new(),
            body,
        });
        let client = self.client.clone();
        let (model, tools) = (request.model.reference(), request.tools.clone());
        let (origin, inner) = (model.clone(), cx.clone());
        let decoder = Decoder::new(origin.clone(), tools.clone()).refusing_empty();
        let first = client.stream(&origin.model, outgoing.clone(), decoder, cx);
        // These models give a response that says nothing now and then; the last one counts.
        let again = move |error: &ProviderError| {
            let decoder = Decoder::new(origin.clone(), tools);
            let stream = || client.stream(&origin.model, outgoing, decoder, &inner);
            (error.code.as_deref() == Some(stream::EMPTY)).then(|| (error.message.clone(), stream()))
        };
        let events = retry_once(first, again, model, cx);
        Box::pin(
            events.map(move |event| event.map_err(|error| quota::judge(error, || size::bytes(&request)))),
        )
    }

    async fn count_tokens(&self, request: Request, cx: &Cx) -> Result<Option<u64>, ProviderError> {
        if self.is_vertex {
            return Ok(None);
        }
        let body = self.body(&request, true);
        let path = path(&request.model.id, "countTokens");
        let answer = self.client.ask(&request.model.id, &path, Vec::new(), Some(body), cx).await?;
        Ok(answer.get("totalTokens").and_then(Value::as_u64))
    }

    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        if self.is_vertex {
            return Ok(None);
        }
        let answer = self.client.ask("*", "/models?pageSize=1000", Vec::new(), None, cx).await?;
        let listed = answer.get("models").and_then(Value::as_array);
        let model = |entry: &Value| {
            let methods = entry.get("supportedGenerationMethods").and_then(Value::as_array);
            if methods.is_some_and(|methods| !methods.iter().any(|method| method == "generateContent")) {
                return None;
            }
            let mut model = self.known(entry.get("name")?.as_str()?);
            let number = |name: &str| entry.get(name).and_then(Value::as_u64).filter(|number| *number > 0);
            model.window = number("inputTokenLimit").or(model.window);
            model.max_output = number("outputTokenLimit").or(model.max_output);
            Some(self.client.models().correct(model))
        };
        Ok(listed.map(|listed| listed.iter().filter_map(model).collect()))
    }
}

/// Whether a model's answers can be held to a schema. Before Gemini 3 that and functions exclude each other.
fn has_schemas(id: &str, with_tools: bool) -> bool {
    thinking::is_third_generation(id) || (id.starts_with("gemini-2.5") && !with_tools)
}

/// The name of a model without what the service's lists put before it.
fn bare(id: &str) -> &str {
    id.strip_prefix("models/").unwrap_or(id)
}

/// The path of a method of a model. What could end the path's segment is written in code.
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

/// `base` with the version of the API, where it names only a host.
fn with_version(base: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    let host = base.split_once("://").map_or(base, |(_, host)| host);
    if host.contains('/') { base.to_owned() } else { format!("{base}/v1beta") }
}
