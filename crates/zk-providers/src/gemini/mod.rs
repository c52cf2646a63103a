//! The API of Google's Gemini models, on the developer service and on Vertex.

mod chunk;
mod finish;
mod names;
mod once_more;
mod partial;
mod parts;
mod quota;
mod request;
mod run;
mod schema;
mod stream;
#[cfg(test)]
mod tests;
mod thinking;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
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
use once_more::{Attempt, once_more};

pub(crate) use stream::Decoder;

/// Settings of [`Gemini`].
#[derive(Clone)]
pub struct GeminiOptions {
    /// The provider's name in this program: `gemini`.
    pub name: String,
    /// Where the API is, with its version: `https://generativelanguage.googleapis.com/v1beta`. For Vertex it
    /// ends in `/publishers/google`, and the key is a bearer token.
    pub base_url: String,
    /// The API key or token.
    pub auth: Auth,
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

impl Default for GeminiOptions {
    fn default() -> Self {
        Self {
            name: "gemini".to_owned(),
            base_url: "https://generativelanguage.googleapis.com/v1beta".to_owned(),
            auth: Auth::None,
            extra_body: Map::new(),
            extra_headers: Vec::new(),
            clocks: None,
            default_model: Some("gemini-3.8-flash".to_owned()),
            http: Http::new(),
        }
    }
}

impl GeminiOptions {
    /// The usual settings with an API key.
    pub fn with_key(key: impl Into<Secret>) -> Self {
        Self { auth: Auth::Key(key.into()), ..Self::default() }
    }
}

impl fmt::Debug for GeminiOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeminiOptions")
            .field("name", &self.name)
            .field("auth", &self.auth)
            .finish_non_exhaustive()
    }
}

/// A provider that speaks the Gemini API.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Gemini, GeminiOptions};
///
/// let gemini = Gemini::new(GeminiOptions::with_key("AIza…"))?;
/// assert_eq!(gemini.model("gemini-2.5-pro").max_output, Some(65_536));
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
pub struct Gemini {
    options: GeminiOptions,
    endpoint: Arc<Endpoint>,
    clocks: Clocks,
    prefixes: Prefixes,
    /// Vertex counts and lists in another way.
    is_vertex: bool,
}

impl fmt::Debug for Gemini {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gemini").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Gemini {
    /// The provider.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(mut options: GeminiOptions) -> Result<Self, SetupError> {
        let auth = std::mem::take(&mut options.auth);
        let endpoint = Endpoint::new(
            &with_version(&options.base_url),
            &["/models"],
            auth,
            Some("x-goog-api-key"),
            &options.extra_headers,
            options.http.clone(),
        )?;
        let usual = if endpoint.is_loopback() { Clocks::local() } else { Clocks::remote() };
        let clocks = options.clocks.unwrap_or(usual);
        let is_vertex = options.base_url.contains("/publishers/");
        Ok(Self { options, endpoint: Arc::new(endpoint), clocks, prefixes: Prefixes::default(), is_vertex })
    }

    fn body(&self, request: &Request, count_only: bool) -> Result<Bytes, Fault> {
        let id = bare(&request.model.id);
        let levels = catalogue::find(Some(CATALOGUE), id).map_or(&[][..], |row| row.efforts());
        let body = request::Body {
            request,
            thinking: thinking::ask(&request.model, request.thinking, levels, request.max_tokens),
            wants_signatures: thinking::is_third_generation(id),
            extra: &self.options.extra_body,
            count_only,
        };
        let history = request.history.messages();
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
        let id = bare(id);
        let mut model = catalogue::find(Some(CATALOGUE), id)
            .map_or_else(|| Model::unknown(&*self.options.name, id), |row| row.model(&self.options.name, id));
        model.capabilities = Capabilities {
            image_in_tool_result: thinking::is_third_generation(id),
            thinking: thinking::support(id).unwrap_or(model.capabilities.thinking),
            ..model.capabilities
        };
        model
    }
}

/// The provider's name in the table of models.
const CATALOGUE: &str = "gemini";

#[async_trait]
impl Provider for Gemini {
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
        let outgoing = self.body(&request, false).map(|body| Outgoing {
            path: path(&request.model.id, "streamGenerateContent?alt=sse").into(),
            headers: Vec::new(),
            body,
        });
        let (endpoint, clocks, name) = (self.endpoint.clone(), self.clocks, self.options.name.clone());
        let (model, tools) = (request.model.reference(), request.tools.clone());
        let (origin, inner) = (model.clone(), cx.clone());
        let attempt = move |attempt| {
            let decoder = Decoder::new(origin.clone(), tools);
            let decoder = if attempt == Attempt::First { decoder.refusing_empty() } else { decoder };
            exchange(endpoint, Call::new(&name, &origin.model), outgoing, clocks, decoder, &inner)
        };
        let size = quota::text_bytes(&request);
        let events = once_more(attempt, model, cx);
        Box::pin(events.map(move |event| event.map_err(|error| quota::judge(error, size))))
    }

    async fn count_tokens(&self, request: Request, cx: &Cx) -> Result<Option<u64>, ProviderError> {
        if self.is_vertex {
            return Ok(None);
        }
        let call = Call::new(&self.options.name, &request.model.id);
        let body = self.body(&request, true);
        let path = path(&request.model.id, "countTokens");
        let answer = ask(&self.endpoint, call, &path, Vec::new(), Some(body), cx).await?;
        Ok(answer.get("totalTokens").and_then(Value::as_u64))
    }

    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        if self.is_vertex {
            return Ok(None);
        }
        let call = Call::new(&self.options.name, "*");
        let answer = ask(&self.endpoint, call, "/models?pageSize=1000", Vec::new(), None, cx).await?;
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
            Some(model)
        };
        Ok(listed.map(|listed| listed.iter().filter_map(model).collect()))
    }
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
