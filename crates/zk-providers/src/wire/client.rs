//! HTTP client of a provider, shared by all dialects.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use zk_core::kernel::Cx;
use zk_core::model::{Model, ProviderError};
use zk_core::service::{EventStream, Request};

use crate::catalogue::models::{self, Overrides, Row};
use crate::catalogue::vendors::Vendor;
use crate::encode::effort::Efforts;
use crate::encode::prefix::{Encode, PrefixCache, PrefixKey};
use crate::wire::connection::Connection;
use crate::wire::endpoint::{BaseUrl, Endpoint, SetupError};
use crate::wire::error::{RequestContext, WireError};
use crate::wire::request::WireRequest;
use crate::wire::response::decode::Decode;
use crate::wire::response::timeouts::Clocks;
use crate::wire::streaming::{exchange, fetch};

/// HTTP client of one provider: sends requests, decodes responses, and caches bodies that later requests
/// continue. Clones share this state.
#[derive(Clone)]
pub struct ApiClient(Arc<Inner>);

struct Inner {
    name: String,
    default_model: Option<String>,
    overrides: Overrides,
    /// Whether the base URL is the vendor's own, so that the table's models apply.
    is_usual: bool,
    extra_body: Map<String, Value>,
    endpoint: Arc<Endpoint>,
    clocks: Clocks,
    prefixes: PrefixCache,
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient")
            .field("name", &self.0.name)
            .field("endpoint", &self.0.endpoint)
            .finish_non_exhaustive()
    }
}

/// Fields that an extra body must not set, because they are written before the replaceable ones: with a
/// duplicate, the server could read either.
const RESERVED: [&str; 8] =
    ["model", "messages", "system", "instructions", "input", "contents", "systemInstruction", "tools"];

impl ApiClient {
    /// Creates the client of a dialect, which sends keys in `key_header`, or else as bearer tokens.
    pub(crate) fn new(
        connection: Connection,
        shape: BaseUrl,
        key_header: Option<&'static str>,
    ) -> Result<Self, SetupError> {
        let Connection { name, base_url, auth, extra_headers, clocks, http, .. } = connection;
        let (extra_body, default_model) = (connection.extra_body, connection.default_model);
        let overrides = connection.models;
        if let Some(field) = RESERVED.iter().find(|field| extra_body.contains_key(**field)) {
            return Err(SetupError::Field { name: (*field).to_owned() });
        }
        let endpoint = Endpoint::new(&base_url, shape, auth, key_header, &extra_headers, http)?;
        let usual = if endpoint.is_loopback() { Clocks::local() } else { Clocks::remote() };
        let (endpoint, clocks) = (Arc::new(endpoint), clocks.unwrap_or(usual));
        let is_usual = Vendor::named(&name).is_some_and(|vendor| vendor.base_url == Some(&base_url));
        let prefixes = PrefixCache::default();
        Ok(Self(Arc::new(Inner {
            name,
            default_model,
            overrides,
            is_usual,
            extra_body,
            endpoint,
            clocks,
            prefixes,
        })))
    }

    /// Returns the provider's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn default_model(&self) -> Option<String> {
        self.0.default_model.clone()
    }

    pub(crate) fn quota_key(&self) -> String {
        self.0.endpoint.quota_key()
    }

    /// Returns the fields that the connection adds to every body; the dialect's own fields win over them.
    #[must_use]
    pub fn extra_body(&self) -> &Map<String, Value> {
        &self.0.extra_body
    }

    /// Returns the person's overrides of models.
    #[must_use]
    pub fn overrides(&self) -> &Overrides {
        &self.0.overrides
    }

    /// Returns the model `id` by the table, or an unknown one, with the person's overrides applied.
    #[must_use]
    pub fn known_model(&self, id: &str) -> Model {
        self.0.overrides.correct(self.model_of_row(models::find(Some(&self.0.name), id), id))
    }

    /// Returns the ids of the overrides and, at the vendor's own address, of the table, in alphabetical
    /// order.
    pub(crate) fn known_ids(&self) -> BTreeSet<&str> {
        let mut ids: BTreeSet<&str> = self.0.overrides.ids().collect();
        if self.0.is_usual {
            for id in models::known_models(&self.0.name) {
                ids.insert(id);
            }
        }
        ids
    }

    /// Returns the row of a model in the table, by the provider's name or that of the vendor `usual`.
    pub(crate) fn row(&self, usual: &str, id: &str) -> Option<Row> {
        models::find(Some(&self.0.name), id).or_else(|| models::find(Some(usual), id))
    }

    /// Returns the model that a row describes, or an unknown one.
    pub(crate) fn model_of_row(&self, row: Option<Row>, id: &str) -> Model {
        row.map_or_else(|| Model::unknown(&*self.0.name, id), |row| row.model(&self.0.name, id))
    }

    /// Returns the effort levels of a model, from its override or else from its row.
    pub(crate) fn efforts(&self, id: &str, row: impl FnOnce() -> Option<Row>) -> Efforts {
        let overridden = self.0.overrides.get(id).and_then(|model| model.efforts.clone());
        overridden.unwrap_or_else(|| row().map(Row::efforts).unwrap_or_default())
    }

    /// Writes the body of a request. The prefix shared with an earlier body is copied instead of serialised.
    pub(crate) fn body(&self, request: &Request, encode: &impl Encode) -> Result<Bytes, WireError> {
        write_body(&self.0.prefixes, request, encode)
    }

    /// Writes the body of a request that no later one continues.
    pub(crate) fn body_once(request: &Request, encode: &impl Encode) -> Result<Bytes, WireError> {
        write_body(&PrefixCache::default(), request, encode)
    }

    /// Sends a request to `model` and returns the decoded response as a stream.
    pub(crate) fn stream(
        &self,
        model: &str,
        request: Result<WireRequest, WireError>,
        decoder: Box<dyn Decode>,
        cx: &Cx,
    ) -> EventStream {
        exchange(self.0.endpoint.clone(), self.context(model), request, self.0.clocks, decoder, cx)
    }

    /// Sends a request with a short JSON response, about `model` or about all models (`*`). The response is
    /// limited to 30 s and 8 MiB.
    ///
    /// # Errors
    /// [`ProviderError`] when the request fails, or the response is no valid JSON.
    pub async fn fetch(&self, model: &str, request: WireRequest, cx: &Cx) -> Result<Value, ProviderError> {
        fetch(&self.0.endpoint, self.context(model), request, cx).await
    }

    /// Creates the error of a request to `model` that was not sent.
    pub(crate) fn error(&self, model: &str, error: WireError) -> ProviderError {
        self.context(model).error(self.0.endpoint.without_secrets(error))
    }

    fn context(&self, model: &str) -> RequestContext {
        RequestContext::new(&self.0.name, model)
    }
}

fn write_body(prefixes: &PrefixCache, request: &Request, encode: &impl Encode) -> Result<Bytes, WireError> {
    let body = prefixes.body(PrefixKey::of(request), request.history.messages(), encode);
    body.map_err(|error| WireError::unwritable(&error))
}
