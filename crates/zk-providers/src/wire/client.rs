//! The client that every dialect sends its requests with.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::HeaderValue;
use serde_json::{Map, Value};
use zk_core::kernel::Cx;
use zk_core::model::{ErrorKind, Model, ProviderError};
use zk_core::service::{EventStream, Request};

use crate::encode::effort::Efforts;
use crate::encode::prefix::{Encode, PrefixCache, PrefixKey};
use crate::facts::catalogue::{self, Overrides, Row};
use crate::facts::vendors::Vendor;
use crate::wire::clocks::Clocks;
use crate::wire::connection::Connection;
use crate::wire::endpoint::{BaseUrl, Endpoint, SetupError};
use crate::wire::error::{RequestContext, WireError};
use crate::wire::exchange::{Decode, WireRequest, ask, exchange};

/// Client of one provider: sends requests, reads responses, and caches the bodies that later requests continue.
pub(crate) struct ApiClient {
    name: String,
    default_model: Option<String>,
    models: Overrides,
    /// Whether it leads to the vendor of that name, who has the models of the table.
    is_usual: bool,
    extra_body: Map<String, Value>,
    endpoint: Arc<Endpoint>,
    clocks: Clocks,
    prefixes: PrefixCache,
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// What stands in a body before the fields that can be replaced: a second one of the same name would leave to
/// the server which it reads.
const OWN: [&str; 8] =
    ["model", "messages", "system", "instructions", "input", "contents", "systemInstruction", "tools"];

impl ApiClient {
    /// Client of a dialect that sends keys in `key_header`, or as bearer tokens.
    pub(crate) fn new(
        connection: Connection,
        shape: BaseUrl,
        key_header: Option<&'static str>,
    ) -> Result<Self, SetupError> {
        let Connection { name, base_url, auth, extra_headers, clocks, http, .. } = connection;
        let (extra_body, default_model) = (connection.extra_body, connection.default_model);
        let models = connection.models;
        if let Some(field) = OWN.iter().find(|field| extra_body.contains_key(**field)) {
            return Err(SetupError::Field { name: (*field).to_owned() });
        }
        let endpoint = Endpoint::new(&base_url, shape, auth, key_header, &extra_headers, http)?;
        let usual = if endpoint.is_loopback() { Clocks::local() } else { Clocks::remote() };
        let (endpoint, clocks) = (Arc::new(endpoint), clocks.unwrap_or(usual));
        let is_usual = Vendor::named(&name).is_some_and(|vendor| vendor.base_url == Some(&base_url));
        let prefixes = PrefixCache::default();
        Ok(Self { name, default_model, models, is_usual, extra_body, endpoint, clocks, prefixes })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn default_model(&self) -> Option<String> {
        self.default_model.clone()
    }

    pub(crate) fn quota_key(&self) -> String {
        self.endpoint.quota_key()
    }

    pub(crate) fn extra_body(&self) -> &Map<String, Value> {
        &self.extra_body
    }

    pub(crate) fn models(&self) -> &Overrides {
        &self.models
    }

    /// The ids of the table, where its vendor is asked, and those something is said about, in alphabetical order.
    pub(crate) fn known_ids(&self) -> BTreeSet<&str> {
        let mut ids: BTreeSet<&str> = self.models.ids().collect();
        if self.is_usual {
            for id in catalogue::known_models(&self.name) {
                ids.insert(id);
            }
        }
        ids
    }

    /// What the table knows of a model here, or at the vendor `usual` whose dialect is spoken.
    pub(crate) fn row(&self, usual: &str, id: &str) -> Option<Row> {
        catalogue::find(Some(&self.name), id).or_else(|| catalogue::find(Some(usual), id))
    }

    /// The model a row describes, or one nothing is known of.
    pub(crate) fn described(&self, row: Option<Row>, id: &str) -> Model {
        row.map_or_else(|| Model::unknown(&*self.name, id), |row| row.model(&self.name, id))
    }

    /// The levels of effort of a model, by what somebody says of it or else by its row.
    pub(crate) fn efforts(&self, id: &str, row: impl FnOnce() -> Option<Row>) -> Efforts {
        let said = self.models.get(id).and_then(|said| said.efforts.clone());
        said.unwrap_or_else(|| row().map(Row::efforts).unwrap_or_default())
    }

    /// The body of a request. What it shares with the one before is not written again.
    pub(crate) fn body(&self, request: &Request, encode: &impl Encode) -> Result<Bytes, WireError> {
        written(&self.prefixes, request, encode)
    }

    /// The body of a request that no other continues.
    pub(crate) fn body_once(request: &Request, encode: &impl Encode) -> Result<Bytes, WireError> {
        written(&PrefixCache::default(), request, encode)
    }

    /// Sends a request for an answer of `model` and reads it.
    pub(crate) fn stream<D: Decode>(
        &self,
        model: &str,
        outgoing: Result<WireRequest, WireError>,
        decoder: D,
        cx: &Cx,
    ) -> EventStream {
        let call = RequestContext::new(&self.name, model);
        exchange(self.endpoint.clone(), call, outgoing, self.clocks, decoder, cx)
    }

    /// Asks something short about `model`, or about all of them: `*`.
    pub(crate) async fn ask(
        &self,
        model: &str,
        path: &str,
        headers: Vec<(&'static str, HeaderValue)>,
        body: Option<Result<Bytes, WireError>>,
        cx: &Cx,
    ) -> Result<Value, ProviderError> {
        ask(&self.endpoint, RequestContext::new(&self.name, model), path, headers, body, cx).await
    }
}

fn written(prefixes: &PrefixCache, request: &Request, encode: &impl Encode) -> Result<Bytes, WireError> {
    let body = prefixes.body(PrefixKey::of(request), request.history.messages(), encode);
    body.map_err(|error| {
        WireError::new(ErrorKind::Rejected, format!("the request cannot be written: {error}"))
    })
}
