//! Address, credential and settings of a provider, equal for all dialects.

use std::fmt;

use serde_json::{Map, Value};
use zk_auth::{Http, Secret};

use crate::catalogue::models::Overrides;
use crate::catalogue::profiles::UNKNOWN;
use crate::wire::response::timeouts::Clocks;
use crate::wire::secret::Auth;

/// Settings of a connection: base URL, credential and further options. Its `Debug` output has no key.
///
/// ```
/// use zk_providers::{Compat, CompatProfile, Connection};
///
/// let connection = Connection::at("http://127.0.0.1:8080/v1").named("lab").key("sk-…");
/// let lab = Compat::new(connection, CompatProfile::default())?;
/// # Ok::<(), zk_providers::SetupError>(())
/// ```
#[derive(Clone)]
pub struct Connection {
    /// Name of the provider within this program.
    pub name: String,
    /// Base URL of the API. Each dialect documents the part of the path that it includes; a pasted suffix
    /// such as `/chat/completions` is removed.
    pub base_url: String,
    /// Credentials of requests.
    pub auth: Auth,
    /// Account of the requests, if the key alone does not determine it: for a subscription, the account that
    /// the access token names.
    pub account: Option<String>,
    /// Additional fields of the request body. The dialect's own fields win, and objects are merged if the
    /// dialect nests its settings. The model, the instructions, the tools and the messages cannot be set
    /// here.
    pub extra_body: Map<String, Value>,
    /// Additional headers.
    pub extra_headers: Vec<(String, String)>,
    /// Time limits; `None` for the defaults, which are longer for a server on this machine.
    pub clocks: Option<Clocks>,
    /// Id of the model to use when none is requested.
    pub default_model: Option<String>,
    /// The person's overrides of models.
    pub models: Overrides,
    /// HTTP clients to use.
    pub http: Http,
}

impl Connection {
    /// Creates a connection to `base_url` without a key, named `openai_compat`.
    pub fn at(base_url: impl Into<String>) -> Self {
        Self {
            name: UNKNOWN.name.into_owned(),
            base_url: base_url.into(),
            auth: Auth::None,
            account: None,
            extra_body: Map::new(),
            extra_headers: Vec::new(),
            clocks: None,
            default_model: None,
            models: Overrides::default(),
            http: Http::new(),
        }
    }

    /// Sets the provider's name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the base URL.
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }

    /// Sets the API key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Secret>) -> Self {
        self.auth = Auth::Key(key.into());
        self
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A base URL may contain a password, and a header a key.
        f.debug_struct("Connection")
            .field("name", &self.name)
            .field("auth", &self.auth)
            .field("default_model", &self.default_model)
            .finish_non_exhaustive()
    }
}
