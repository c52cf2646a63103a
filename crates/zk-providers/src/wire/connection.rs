//! The address, the key and the settings of a provider, the same for every dialect.

use std::fmt;

use serde_json::{Map, Value};
use zk_auth::{Http, Secret};

use crate::catalogue::models::Overrides;
use crate::catalogue::profiles::UNKNOWN;
use crate::wire::response::timeouts::Clocks;
use crate::wire::secret::Auth;

/// Settings of a connection: where requests go, and what they show there. Its `Debug` shows no key.
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
    /// The provider's name in this program.
    pub name: String,
    /// Base URL of the API. Each dialect says in its own documentation how much of the path belongs to it; an
    /// ending that is pasted along, such as `/chat/completions`, does no harm.
    pub base_url: String,
    /// Credentials that requests show.
    pub auth: Auth,
    /// Account of the requests, where a key alone does not say: for a subscription, the account that the
    /// access token names.
    pub account: Option<String>,
    /// More fields for the request body. Those zk sends itself win, and objects are merged where the dialect
    /// nests its settings. The model, the instructions, the tools and the messages cannot be among them.
    pub extra_body: Map<String, Value>,
    /// More headers.
    pub extra_headers: Vec<(String, String)>,
    /// Time limits; unless set, longer for a server on this machine than for others.
    pub clocks: Option<Clocks>,
    /// The model used when none is asked for.
    pub default_model: Option<String>,
    /// User overrides of the metadata of its models.
    pub models: Overrides,
    /// The HTTP clients.
    pub http: Http,
}

impl Connection {
    /// The server at `base_url`, without a key, called `openai_compat`.
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

    /// Sets another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets another address.
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }

    /// Sets an API key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Secret>) -> Self {
        self.auth = Auth::Key(key.into());
        self
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A base URL can hold a password, and a header a key.
        f.debug_struct("Connection")
            .field("name", &self.name)
            .field("auth", &self.auth)
            .field("default_model", &self.default_model)
            .finish_non_exhaustive()
    }
}
