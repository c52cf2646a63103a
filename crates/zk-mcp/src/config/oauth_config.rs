use std::fmt;

use serde::Deserialize;

/// Sign-in settings of a server. Most servers need none.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OAuthConfig {
    /// Client id of zk at the authorisation server.
    #[serde(alias = "clientId")]
    pub client_id: Option<String>,
    /// Client secret, if there is one.
    #[serde(alias = "clientSecret")]
    pub client_secret: Option<String>,
    /// Authorisation server that issued the client id; `None` for the first one it is used at.
    pub issuer: Option<String>,
    /// Scopes to request besides those the server asks for.
    pub scopes: Vec<String>,
    /// Callback port on this machine; `None` for any free port.
    #[serde(alias = "callbackPort")]
    pub port: Option<u16>,
    /// URL of the client metadata document; `None` for the host's.
    pub client_metadata_url: Option<String>,
}

impl fmt::Debug for OAuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthConfig").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}
