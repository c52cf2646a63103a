//! Settings sections of providers (`[providers.NAME]`) and of models (`[models."PROVIDER/ID"]`).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use zk_auth::Http;
use zk_core::model::ThinkingSupport;

use crate::catalogue::models::{Override, Overrides};
use crate::encode::effort::Efforts;
use crate::select::{CredentialSource, SelectedEndpoint};
use crate::wire::connection::Connection;
use crate::wire::response::timeouts::Clocks;
use crate::wire::secret::Auth;

/// One provider: a vendor that zk knows, or a server of one's own.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-by-projects" = false))]
pub struct ProviderSettings {
    /// Known provider that a server of one's own is like.
    pub like: Option<String>,
    /// Address that requests go to.
    pub base_url: Option<String>,
    /// Default model.
    pub model: Option<String>,
    /// Header that carries the key in place of the usual one.
    pub auth_header: Option<String>,
    /// Text before the key in that header.
    pub auth_prefix: Option<String>,
    /// Time limits of an answer.
    pub clocks: ClockSettings,
    /// Attempts after a request that failed.
    pub retry: RetrySettings,
    /// Additional headers of each request.
    #[schemars(extend("x-secret" = true))]
    pub headers: BTreeMap<String, String>,
    /// Key, `env:NAME` of a variable that has it, or `!COMMAND` that prints it.
    #[schemars(extend("x-credential" = true))]
    pub api_key: Option<String>,
    /// Token that is sent as a bearer, written as a key is.
    #[schemars(extend("x-credential" = true))]
    pub auth_token: Option<String>,
    /// Sign-in of the provider.
    pub oauth: Map<String, Value>,
    /// Options of its dialect.
    pub options: Map<String, Value>,
    /// Fields that are added to the body of each request.
    pub extra_body: Map<String, Value>,
}

impl fmt::Debug for ProviderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers, options and sign-in are omitted, since they may contain secrets.
        f.debug_struct("ProviderSettings")
            .field("like", &self.like)
            .field("base_url", &self.base_url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl ProviderSettings {
    /// Returns the connection to an endpoint of the provider, with the credential `auth` and the settings about its
    /// `models`.
    #[must_use]
    pub fn connection(
        &self,
        endpoint: &SelectedEndpoint,
        auth: Auth,
        models: Overrides,
        http: Http,
    ) -> Connection {
        let SelectedEndpoint { provider, base_url, credential, .. } = endpoint;
        let auth = match (auth, self.auth_header.clone()) {
            (Auth::Key(key), Some(header)) => {
                Auth::Header { name: header, prefix: self.auth_prefix.clone().unwrap_or_default(), key }
            }
            (auth, _) => auth,
        };
        let account = match credential {
            Some(CredentialSource::SignIn { account }) => account.clone(),
            Some(CredentialSource::Key(_) | CredentialSource::Bearer(_) | CredentialSource::StoredKey)
            | None => None,
        };
        Connection {
            name: provider.name.clone(),
            base_url: base_url.clone(),
            auth,
            account,
            extra_body: self.extra_body.clone(),
            extra_headers: self.headers.clone().into_iter().collect(),
            models,
            clocks: Some(self.clocks.clocks(base_url)),
            default_model: self.model.clone().or(provider.vendor.connection().default_model),
            http,
        }
    }
}

/// Time limits of an answer, in seconds; by default those of the address.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClockSettings {
    /// Seconds until the first event.
    #[schemars(range(min = 1))]
    pub first_event: Option<u32>,
    /// Seconds without any event.
    #[schemars(range(min = 1))]
    pub liveness: Option<u32>,
    /// Seconds without a part of the answer.
    #[schemars(range(min = 1))]
    pub progress: Option<u32>,
}

impl ClockSettings {
    /// Returns the time limits for an address.
    #[must_use]
    pub fn clocks(&self, base_url: &str) -> Clocks {
        let usual = Clocks::at(base_url);
        let seconds = |said: Option<u32>, usual| said.map_or(usual, |said| Duration::from_secs(said.into()));
        Clocks {
            first_event: seconds(self.first_event, usual.first_event),
            liveness: seconds(self.liveness, usual.liveness),
            progress: seconds(self.progress, usual.progress),
            ..usual
        }
    }
}

/// Attempts after a request that failed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RetrySettings {
    /// Attempts after the first one.
    #[schemars(range(min = 1))]
    pub retries: Option<u32>,
    /// Longest wait before an attempt, in seconds.
    #[schemars(range(min = 1))]
    pub longest_wait: Option<u32>,
}

/// Facts about a model that the catalogue does not have, or has wrong.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelSettings {
    /// Context window, in tokens.
    #[schemars(range(min = 1))]
    pub window: Option<u32>,
    /// Largest output, in tokens.
    #[schemars(range(min = 1))]
    pub max_output: Option<u32>,
    /// US dollars for a million tokens of input that is in no cache.
    #[schemars(range(min = 0.0), extend("x-expected" = "the US dollars for a million tokens, a number from 0"))]
    pub input: Option<f64>,
    /// US dollars for a million tokens of output.
    #[schemars(range(min = 0.0), extend("x-expected" = "the US dollars for a million tokens, a number from 0"))]
    pub output: Option<f64>,
    /// US dollars for a million tokens of input that is read from a cache.
    #[schemars(range(min = 0.0), extend("x-expected" = "the US dollars for a million tokens, a number from 0"))]
    pub cache_read: Option<f64>,
    /// US dollars for a million tokens of input that is written to a cache.
    #[schemars(range(min = 0.0), extend("x-expected" = "the US dollars for a million tokens, a number from 0"))]
    pub cache_write: Option<f64>,
    /// Whether it sees images.
    pub vision: Option<bool>,
    /// Form of its reasoning request.
    #[schemars(with = "ThinkingName")]
    pub thinking: Option<ThinkingSupport>,
    /// Levels of effort that it has.
    #[serde(deserialize_with = "levels")]
    #[schemars(with = "Vec<String>")]
    #[schemars(extend(
        "x-expected" = "a list of the levels the model has, of `off`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`, each \
            with the word the server wants where that is another one, such as [\"off\", \"high=default\"]"
    ))]
    #[schemars(inner(regex(pattern = "^(off|minimal|low|medium|high|xhigh|max)(=.+)?$")))]
    pub efforts: Option<Efforts>,
}

/// Form of a reasoning request, as written in settings.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum ThinkingName {
    None,
    Budget,
    Effort,
    Adaptive,
}

fn levels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Efforts>, D::Error> {
    let levels = Vec::<String>::deserialize(deserializer)?;
    let levels = levels.iter().map(|level| match level.split_once('=') {
        Some((level, word)) => (level, Some(word.to_owned().into())),
        None => (level.as_str(), None),
    });
    Ok(Some(Efforts::of(levels)))
}

impl From<ModelSettings> for Override {
    fn from(model: ModelSettings) -> Self {
        Self {
            window: model.window.map(u64::from),
            max_output: model.max_output.map(u64::from),
            input: model.input,
            output: model.output,
            cache_read: model.cache_read,
            cache_write: model.cache_write,
            vision: model.vision,
            thinking: model.thinking,
            efforts: model.efforts,
        }
    }
}
