//! Chat Completions, as defined by OpenAI and interpreted by many servers.

mod assistant;
mod calls;
mod chunk;
mod details;
mod model_list;
mod reasoning;
mod request;
mod stream;
mod think_tags;
mod usage;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};
use zk_core::model::{
    Capabilities, MediaTypes, Message, Model, ThinkingReplay, ThinkingSupport, ToolProtocol, WireReady,
    WireRules,
};
use zk_core::service::{Request, ToolChoice};

use crate::catalogue::models;
use crate::catalogue::profiles::{
    CompatProfile, Patterns, ReasoningEcho, ReasoningFormat, ToolChoices, Traits,
};
use crate::catalogue::schema_limits;
use crate::encode::effort::Efforts;
use crate::encode::{loose_schema, strict_schema};
use crate::wire::connection::Connection;
use crate::wire::embeddings::EMBEDDINGS;
use crate::wire::endpoint::SetupError;
use crate::wire::{
    ApiClient, Attempt, BaseUrl, Decode, Dialect, Headers, HttpProvider, ModelList, WireError, WireRequest,
};

pub(crate) use details::Details;
pub(crate) use stream::Decoder;

/// A provider that uses Chat Completions. Its base URL includes `/v1` if the server has it.
///
/// ```
/// use zk_core::service::Provider;
/// use zk_providers::{Compat, CompatProfile, Connection};
///
/// let local = Compat::new(Connection::at("http://127.0.0.1:8080/v1"), CompatProfile::default())?;
/// assert_eq!(local.name(), "openai_compat");
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
pub type Compat = HttpProvider<ChatDialect>;

/// The dialect of [`Compat`].
#[derive(Debug)]
pub struct ChatDialect {
    profile: CompatProfile,
    patterns: Patterns,
    session_header: Option<String>,
}

const COMPLETIONS: &str = "/chat/completions";

impl Compat {
    /// Creates a provider for a server of the kind that `profile` describes.
    ///
    /// # Errors
    /// [`SetupError`] when the base URL, the key or a header cannot be used.
    pub fn new(mut connection: Connection, profile: CompatProfile) -> Result<Self, SetupError> {
        // Put first, since later headers of the same name override earlier ones.
        let headers = profile.headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        connection.extra_headers.splice(0..0, headers);
        let session_header = profile.session_header.as_deref().map(str::to_owned);
        if let Some(name) = &session_header {
            Headers::new().insert(name, "")?;
        }
        let patterns = Patterns::new(&profile);
        Self::with_dialect(connection, ChatDialect { profile, patterns, session_header })
    }
}

impl ChatDialect {
    fn catalogue_row(&self, id: &str) -> Option<models::Row> {
        let catalogue = self.profile.catalogue.as_deref();
        // Gateways prefix the name with the vendor.
        let bare = id.rsplit('/').next().unwrap_or(id);
        models::find(catalogue, id).or_else(|| models::find(catalogue, bare))
    }

    fn headers_of(&self, request: &Request) -> Headers {
        let mut headers = Headers::new();
        if let (Some(name), Some(session)) = (&self.session_header, request.session.as_deref()) {
            // A session id that is no valid header value is left out.
            let _ = headers.insert(name, request::session_key(session));
        }
        headers
    }
}

#[async_trait]
impl Dialect for ChatDialect {
    const BASE_URL: BaseUrl = BaseUrl { strip: &[COMPLETIONS], advice: "Many need `/v1` at the end" };

    fn model(&self, client: &ApiClient, id: &str) -> Model {
        let profile = &self.profile;
        let name = client.name();
        let mut model = match self.catalogue_row(id) {
            Some(row) => row.model(name, id),
            None => {
                let mut model = Model::unknown(name, id);
                // The person asked for reasoning, so the request asks for it too.
                model.capabilities.thinking = ThinkingSupport::Effort;
                model
            }
        };
        if profile.catalogue.is_none() {
            // Prices of another service do not apply to this one.
            model.prices = None;
        }
        model.capabilities = supported_capabilities(model.capabilities, profile);
        if self.patterns.traits(profile, id).inline_tools {
            model.capabilities.tool_protocol = ToolProtocol::Inline;
        }
        client.overrides().correct(model)
    }

    fn rules(&self, model: &Model) -> WireRules {
        rules(&self.profile, &self.patterns.traits(&self.profile, &model.id), model)
    }

    fn native_output(&self, model: &Model, schema: &Value, with_tools: bool) -> bool {
        let traits = self.patterns.traits(&self.profile, &model.id);
        traits.has_schemas(with_tools) && answer_schema(&self.profile, schema).is_some()
    }

    /// Offers only the forced tool if the server cannot be told its name, or may ignore it.
    fn prepare(&self, mut request: Request) -> Request {
        let by_name = matches!(self.profile.tool_choice, ToolChoices::All | ToolChoices::Any);
        if let (false, ToolChoice::Tool(name)) = (by_name, &request.tool_choice) {
            request.tools = request.tools.iter().filter(|tool| tool.name == *name).cloned().collect();
        }
        request
    }

    fn request(&self, client: &ApiClient, request: &Request) -> Result<WireRequest, WireError> {
        let id = &*request.model.id;
        let efforts = &client.efforts(id, || self.catalogue_row(id));
        let extra = client.extra_body();
        let traits = self.patterns.traits(&self.profile, id);
        let body = request::Body { request, profile: &self.profile, traits, efforts, extra };
        let body = client.body(request, &body)?;
        Ok(WireRequest::post(COMPLETIONS, body).with_headers(self.headers_of(request)))
    }

    fn decoder(&self, _: &ApiClient, request: &Request, _: Attempt) -> Box<dyn Decode> {
        Box::new(Decoder::new(&request.model, &self.profile))
    }

    fn embeddings_path(&self) -> Option<&'static str> {
        Some(EMBEDDINGS)
    }

    fn model_list(&self) -> Option<ModelList> {
        Some(ModelList { path: "/models", field: "data" })
    }

    fn listed_model(&self, client: &ApiClient, entry: &Value) -> Option<Model> {
        let known = self.model(client, entry.get("id")?.as_str()?);
        Some(model_list::read(entry, &self.profile, known))
    }
}

/// Returns the schema of an answer in the form that the server enforces, if it can be expressed.
fn answer_schema(profile: &CompatProfile, schema: &Value) -> Option<Value> {
    match profile.any_schema {
        true => Some(loose_schema::loose(schema)),
        false => strict_schema::strict(schema, schema_limits::COMPLETIONS),
    }
}

/// Returns the capabilities of a model that a server of this kind supports.
fn supported_capabilities(model: Capabilities, profile: &CompatProfile) -> Capabilities {
    Capabilities {
        vision: model.vision && profile.vision,
        image_in_tool_result: profile.image_in_tool_result,
        thinking: match (model.thinking, profile.reasoning) {
            (ThinkingSupport::None, _) | (_, ReasoningFormat::None) => ThinkingSupport::None,
            (ThinkingSupport::Budget | ThinkingSupport::Effort | ThinkingSupport::Adaptive, _) => {
                ThinkingSupport::Effort
            }
        },
        ..model
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

/// Converts a conversation for `model` on a server of this kind: returns the message with the system prompt
/// if there is one, the other messages, and the normalised history.
pub(crate) fn conversation(
    profile: &CompatProfile,
    model: &Model,
    system: &str,
    history: &[Arc<Message>],
) -> (Option<Value>, Vec<Value>, WireReady) {
    let model = Model { capabilities: supported_capabilities(model.capabilities, profile), ..model.clone() };
    let patterns = Patterns::new(profile);
    let traits = patterns.traits(profile, &model.id);
    let ready = WireReady::normalise(history, &rules(profile, &traits, &model));
    let request = Request { system: system.into(), cache: false, ..Request::new(model, ready) };
    let (efforts, extra) = (Efforts::default(), Map::new());
    let body = request::Body { request: &request, profile, traits, efforts: &efforts, extra: &extra };
    (body.system(), body.messages(), request.history)
}
