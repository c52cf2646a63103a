use std::fmt;

use serde::Deserialize;

/// Settings of the sign-in to a server. Most servers need none of them.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OAuthConfig {
    /// The id zk was registered with.
    #[serde(alias = "clientId")]
    pub client_id: Option<String>,
    /// The secret that belongs to that id, if there is one.
    #[serde(alias = "clientSecret")]
    pub client_secret: Option<String>,
    /// The authorisation server that issued the id; unless set, the first one that the id is used at.
    pub issuer: Option<String>,
    /// Scopes that a token is to be good for, beside those the server asks for.
    pub scopes: Vec<String>,
    /// The port of this machine that the browser is sent back to; any free one unless set.
    #[serde(alias = "callbackPort")]
    pub port: Option<u16>,
    /// The address of a document that describes the client, in the place of the host's.
    pub client_metadata_url: Option<String>,
}

impl fmt::Debug for OAuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthConfig").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}
