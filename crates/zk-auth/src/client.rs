use reqwest::Url;
use serde::Deserialize;

use super::AuthError;
use crate::http::is_loopback;

/// An authorisation server, and who zk is to it: data, so that another server is another value.
///
/// zk says that it is zk: the user agent is its own, and nothing here can change that.
///
/// ```
/// use zk_auth::{OAuthClient, Redirect};
///
/// let client = OAuthClient {
///     scopes: vec!["models".into()],
///     ..OAuthClient::new("example", "zk", "https://example.com/authorize", "https://example.com/token")
/// };
/// assert!(matches!(client.redirect, Redirect::Loopback { port: None, .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OAuthClient {
    /// Name of the credential: that of the provider it is for.
    pub name: String,
    /// The id the server knows the client by.
    pub client_id: String,
    /// Address at which the person signs in.
    pub authorize_url: String,
    /// Address at which codes and refresh tokens are turned into tokens.
    pub token_url: String,
    /// The server's identifier (RFC 9207), which an answer that names its issuer has to name. The origin of
    /// `token_url` unless set.
    #[serde(default)]
    pub issuer: Option<String>,
    /// Rule for what an answer has to say about the issuer.
    #[serde(default)]
    pub issuer_rule: IssuerRule,
    /// Authentication of this client at the token endpoint.
    #[serde(default)]
    pub auth: ClientAuth,
    /// Scopes of the tokens: the uses they are to be good for.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Redirect by which the answer comes back.
    #[serde(default)]
    pub redirect: Redirect,
    /// Form in which the token endpoint takes its fields.
    #[serde(default)]
    pub token_body: TokenBody,
    /// More parameters of the authorize URL.
    #[serde(default)]
    pub authorize_params: Vec<(String, String)>,
    /// The API the tokens are for (RFC 8707), if the server wants to know.
    #[serde(default)]
    pub resource: Option<String>,
    /// The hosts that may see the tokens; every one if there are none.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Path, in the claims of a token, to the account; nothing if no token says.
    #[serde(default)]
    pub account_claim: Vec<String>,
}

/// Redirect by which the answer to a sign-in comes back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Redirect {
    /// The browser is sent to this machine, where zk listens on 127.0.0.1.
    Loopback {
        /// Name of this machine for the server: `127.0.0.1` or `localhost`.
        #[serde(default = "loopback")]
        host: String,
        /// The port, if the server wants a certain one; any free one otherwise.
        #[serde(default)]
        port: Option<u16>,
        /// The path: `/callback`.
        #[serde(default = "callback")]
        path: String,
    },
    /// The browser is sent to a page that shows a text to paste.
    Page {
        /// The page.
        url: String,
    },
}

impl Default for Redirect {
    fn default() -> Self {
        Self::Loopback { host: loopback(), port: None, path: callback() }
    }
}

fn loopback() -> String {
    "127.0.0.1".to_owned()
}

fn callback() -> String {
    "/callback".to_owned()
}

/// Form in which a token endpoint takes its fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenBody {
    /// Fields of a form, which is the standard.
    #[default]
    Form,
    /// A JSON object.
    Json,
}

/// Rule for what the answer to a sign-in has to say about the issuer (RFC 9207).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IssuerRule {
    /// An issuer that the answer names has to be that of the client; a slash at the end makes no difference.
    #[default]
    Lenient,
    /// An issuer that the answer names has to be that of the client, to the letter. Another one ends the
    /// sign-in.
    Exact,
    /// An answer has to name the issuer, to the letter: the server says that it does. Anything else ends the
    /// sign-in.
    Required,
}

/// Authentication of a client at the token endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", content = "secret", rename_all = "snake_case")]
pub enum ClientAuth {
    /// The id alone: a public client, as a program on a person's machine is.
    #[default]
    None,
    /// A secret, in the header `Authorization`.
    Basic(ClientSecret),
    /// A secret, among the fields.
    Post(ClientSecret),
}

/// The secret of a client. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ClientSecret(String);

impl ClientSecret {
    /// The secret itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for ClientSecret {
    fn from(secret: String) -> Self {
        Self(secret)
    }
}

impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientSecret(…)")
    }
}

impl OAuthClient {
    /// A client with an ephemeral loopback port and no scopes.
    pub fn new(
        name: impl Into<String>,
        client_id: impl Into<String>,
        authorize_url: impl Into<String>,
        token_url: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            client_id: client_id.into(),
            authorize_url: authorize_url.into(),
            token_url: token_url.into(),
            issuer: None,
            issuer_rule: IssuerRule::Lenient,
            auth: ClientAuth::None,
            scopes: Vec::new(),
            redirect: Redirect::default(),
            token_body: TokenBody::Form,
            authorize_params: Vec::new(),
            resource: None,
            hosts: Vec::new(),
            account_claim: Vec::new(),
        }
    }

    /// Returns the issuer of the tokens, to which they are bound.
    pub(crate) fn issuer(&self) -> String {
        let origin = || Url::parse(&self.token_url).map(|url| url.origin().ascii_serialization());
        self.issuer.clone().or_else(|| origin().ok()).unwrap_or_default()
    }

    pub(crate) fn authorize_url(&self) -> Result<Url, AuthError> {
        self.url("authorize_url", &self.authorize_url)
    }

    pub(crate) fn token_url(&self) -> Result<Url, AuthError> {
        self.url("token_url", &self.token_url)
    }

    /// Codes and tokens travel over TLS or not off this machine.
    fn url(&self, field: &'static str, text: &str) -> Result<Url, AuthError> {
        let url = Url::parse(text).map_err(|error| self.wrong(field, format!("is no URL ({error})")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(self.wrong(field, "must not hold a user or a password".to_owned()));
        }
        match url.scheme() {
            "https" => Ok(url),
            "http" if is_loopback(&url) => Ok(url),
            _ => Err(self.wrong(field, "must begin with https://".to_owned())),
        }
    }

    pub(crate) fn wrong(&self, field: &'static str, reason: String) -> AuthError {
        AuthError::Client { name: self.name.clone(), field, reason }
    }
}
