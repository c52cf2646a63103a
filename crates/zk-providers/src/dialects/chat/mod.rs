//! Chat Completions, as OpenAI made it and as many servers understood it.

mod assistant;
mod calls;
mod chunk;
mod details;
mod listed;
mod reasoning;
mod request;
mod stream;
mod tags;
mod usage;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use zk_core::kernel::Cx;
use zk_core::model::{
    Capabilities, MediaTypes, Message, Model, ProviderError, ThinkingReplay, ThinkingSupport, WireReady,
    WireRules,
};
use zk_core::service::{EventStream, Provider, Request, ToolChoice};

use crate::encode::effort::Efforts;
use crate::encode::strict_schema;
use crate::facts::catalogue;
use crate::wire::client::ApiClient;
use crate::wire::connection::Connection;
use crate::wire::endpoint::{BaseUrl, SetupError};
use crate::wire::error::WireError;
use crate::wire::exchange::WireRequest;

use crate::facts::profiles::{CompatProfile, Patterns, ReasoningEcho, ReasoningFormat, ToolChoices, Traits};

pub(crate) use details::Details;
pub(crate) use stream::Decoder;

/// A provider that speaks Chat Completions. Its base URL has the `/v1` where the server has it.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Compat, CompatProfile, Connection};
///
/// let local = Compat::new(Connection::at("http://127.0.0.1:8080/v1"), CompatProfile::default())?;
/// assert_eq!(local.name(), "openai_compat");
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
#[derive(Debug)]
pub struct Compat {
    client: ApiClient,
    profile: CompatProfile,
    patterns: Patterns,
    session_header: Option<HeaderName>,
}

const COMPLETIONS: &str = "/chat/completions";
const BASE_URL: BaseUrl = BaseUrl { strip: &[COMPLETIONS], advice: "Many need `/v1` at the end" };

impl Compat {
    /// The provider, which is of the kind that `profile` describes.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(mut connection: Connection, profile: CompatProfile) -> Result<Self, SetupError> {
        // The first ones: later ones of the same name win.
        let headers = profile.headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        connection.extra_headers.splice(0..0, headers);
        let session_header = profile.session_header.as_deref().map(|name| {
            let illegal = |_| SetupError::Header { name: name.to_owned() };
            HeaderName::from_bytes(name.as_bytes()).map_err(illegal)
        });
        let patterns = Patterns::new(&profile);
        let client = ApiClient::new(connection, BASE_URL, None)?;
        Ok(Self { client, patterns, session_header: session_header.transpose()?, profile })
    }

    fn body(&self, request: &Request) -> Result<Bytes, WireError> {
        let id = &*request.model.id;
        let efforts = &self.client.efforts(id, || self.row(id));
        let extra = self.client.extra_body();
        let traits = self.patterns.traits(&self.profile, &request.model.id);
        self.client.body(request, &request::Body { request, profile: &self.profile, traits, efforts, extra })
    }

    fn headers(&self, request: &Request) -> Vec<(HeaderName, HeaderValue)> {
        let session = request.session.as_deref().map(request::session_key);
        let value = session.and_then(|session| HeaderValue::from_str(session).ok());
        self.session_header.clone().zip(value).into_iter().collect()
    }

    /// Where a server cannot be told which tool to call, or may not heed it, no other is offered.
    fn narrowed(&self, mut request: Request) -> Request {
        let by_name = matches!(self.profile.tool_choice, ToolChoices::All | ToolChoices::Any);
        if let (false, ToolChoice::Tool(name)) = (by_name, &request.tool_choice) {
            request.tools = request.tools.iter().filter(|tool| tool.name == *name).cloned().collect();
        }
        request
    }

    fn row(&self, id: &str) -> Option<catalogue::Row> {
        let catalogue = self.profile.catalogue.as_deref();
        // Gateways put the vendor before the name.
        let bare = id.rsplit('/').next().unwrap_or(id);
        catalogue::find(catalogue, id).or_else(|| catalogue::find(catalogue, bare))
    }

    fn known(&self, id: &str) -> Model {
        let profile = &self.profile;
        let name = self.client.name();
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
        model.capabilities = served(model.capabilities, profile);
        self.client.models().correct(model)
    }
}

#[async_trait]
impl Provider for Compat {
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
        rules(&self.profile, &self.patterns.traits(&self.profile, &model.id), model)
    }

    fn native_output(&self, model: &Model, schema: &Value, with_tools: bool) -> bool {
        let traits = self.patterns.traits(&self.profile, &model.id);
        traits.has_schemas(with_tools) && strict_schema::strict(schema, strict_schema::OPENAI).is_some()
    }

    fn stream(&self, request: Request, cx: &Cx) -> EventStream {
        let request = self.narrowed(request);
        let headers = self.headers(&request);
        let outgoing =
            self.body(&request).map(|body| WireRequest { path: COMPLETIONS.into(), headers, body });
        let decoder = Decoder::new(&request.model, &self.profile);
        self.client.stream(&request.model.id, outgoing, decoder, cx)
    }

    async fn list_models(&self, cx: &Cx) -> Result<Option<Vec<Model>>, ProviderError> {
        let answer = self.client.ask("*", "/models", Vec::new(), None, cx).await?;
        // Most wrap the list in `data`; some do not.
        let listed = answer.get("data").unwrap_or(&answer).as_array();
        let model = |entry: &Value| {
            let known = self.known(entry.get("id")?.as_str()?);
            Some(self.client.models().correct(listed::read(entry, &self.profile, known)))
        };
        Ok(listed.map(|listed| listed.iter().filter_map(model).collect()))
    }
}

/// What is left of a model's capabilities on a server of this kind.
fn served(model: Capabilities, profile: &CompatProfile) -> Capabilities {
    Capabilities {
        vision: model.vision && profile.vision,
        image_in_tool_result: profile.image_in_tool_result,
        thinking: match (model.thinking, profile.reasoning) {
            (ThinkingSupport::None, _) | (_, ReasoningFormat::None) => ThinkingSupport::None,
            (ThinkingSupport::Budget | ThinkingSupport::Effort | ThinkingSupport::Adaptive, _) => {
                ThinkingSupport::Effort
            }
        },
    }
}

fn rules(profile: &CompatProfile, traits: &Traits<'_>, model: &Model) -> WireRules {
    WireRules {
        ids: profile.ids,
        vision: model.capabilities.vision,
        media: MediaTypes {
            images: MediaTypes::WEB,
            documents: if profile.documents { &["application/pdf", "text/*"] } else { &["text/*"] },
            largest_image: None,
        },
        image_in_tool_result: model.capabilities.image_in_tool_result,
        image_in_answer: false,
        thinking: match traits.echo {
            ReasoningEcho::No => ThinkingReplay::Never,
            ReasoningEcho::In(_)
            | ReasoningEcho::Always { .. }
            | ReasoningEcho::Parts
            | ReasoningEcho::Tags => ThinkingReplay::Echo,
        },
        ..WireRules::tolerant(model.reference())
    }
}

/// A conversation as `model` takes it on a server of this kind: the message that holds the system prompt, if there
/// is one, the others, and the history they stand for.
pub(crate) fn conversation(
    profile: &CompatProfile,
    model: &Model,
    system: &str,
    history: &[Arc<Message>],
) -> (Option<Value>, Vec<Value>, WireReady) {
    let model = Model { capabilities: served(model.capabilities, profile), ..model.clone() };
    let patterns = Patterns::new(profile);
    let traits = patterns.traits(profile, &model.id);
    let ready = WireReady::normalise(history, &rules(profile, &traits, &model));
    let request = Request { system: system.into(), cache: false, ..Request::new(model, ready) };
    let (efforts, extra) = (Efforts::default(), Map::new());
    let body = request::Body { request: &request, profile, traits, efforts: &efforts, extra: &extra };
    (body.system(), body.messages(), request.history)
}
