use reqwest::Url;
use serde::Deserialize;

use super::AuthError;
use crate::http::is_loopback;

/// Description of an authorisation server and of zk's registration there. Plain data, so that another server
/// needs no code.
///
/// zk identifies itself: its user agent cannot be changed here.
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
    /// Name of the credential, which is the provider's name.
    pub name: String,
    /// Client id at the server.
    pub client_id: String,
    /// Address of the sign-in page.
    pub authorize_url: String,
    /// Address that exchanges codes and refresh tokens for tokens.
    pub token_url: String,
    /// Identifier of the server (RFC 9207), which an answer with an issuer must name. The default is the
    /// origin of `token_url`.
    #[serde(default)]
    pub issuer: Option<String>,
    /// Rule for the issuer in an answer.
    #[serde(default)]
    pub issuer_rule: IssuerRule,
    /// Authentication of zk at the token endpoint.
    #[serde(default)]
    pub auth: ClientAuth,
    /// Requested scopes of the tokens.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Redirect by which the answer arrives.
    #[serde(default)]
    pub redirect: Redirect,
    /// Encoding of requests to the token endpoint.
    #[serde(default)]
    pub token_body: TokenBody,
    /// Additional parameters of the authorize URL.
    #[serde(default)]
    pub authorize_params: Vec<(String, String)>,
    /// API for which the tokens are requested (RFC 8707), if the server needs it.
    #[serde(default)]
    pub resource: Option<String>,
    /// Hosts to which tokens may be sent; an empty list allows all.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Path to the account id in the claims of a token; empty if tokens do not contain it.
    #[serde(default)]
    pub account_claim: Vec<String>,
}

/// Redirect by which the answer to a sign-in arrives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Redirect {
    /// Redirect to this machine, where zk listens on 127.0.0.1.
    Loopback {
        /// Host in the redirect address: `127.0.0.1` or `localhost`.
        #[serde(default = "default_host")]
        host: String,
        /// Port, if the server requires a fixed one; otherwise any free port.
        #[serde(default)]
        port: Option<u16>,
        /// Path in the redirect address, such as `/callback`.
        #[serde(default = "default_path")]
        path: String,
    },
    /// Redirect to a web page that shows a code for the person to paste.
    Page {
        /// Address of the page.
        url: String,
    },
}

impl Default for Redirect {
    fn default() -> Self {
        Self::Loopback { host: default_host(), port: None, path: default_path() }
    }
}

fn default_host() -> String {
    "127.0.0.1".to_owned()
}

fn default_path() -> String {
    "/callback".to_owned()
}

/// Encoding of requests to a token endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenBody {
    /// Form fields, as in the standard.
    #[default]
    Form,
    /// A JSON object.
    Json,
}

/// Rule for the issuer in the answer to a sign-in (RFC 9207).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IssuerRule {
    /// A given issuer must be the client's, up to a trailing slash.
    #[default]
    Lenient,
    /// A named issuer must be exactly the client's; another one ends the sign-in.
    Exact,
    /// The answer must name exactly the client's issuer; the server declares that it does. Anything else ends
    /// the sign-in.
    Required,
}

/// Authentication of a client at the token endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", content = "secret", rename_all = "snake_case")]
pub enum ClientAuth {
    /// Client id only: a public client, such as a program on a person's machine.
    #[default]
    None,
    /// Secret in the header `Authorization`.
    Basic(ClientSecret),
    /// Secret among the request's fields.
    Post(ClientSecret),
}

/// Secret of a client. Its `Debug` output is redacted.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ClientSecret(String);

impl ClientSecret {
    /// Plain text of the secret.
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
    /// Client with any free loopback port and no scopes.
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

    /// Issuer to which tokens are bound.
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

    /// Parses an address, and refuses plain HTTP to other machines.
    fn url(&self, field: &'static str, text: &str) -> Result<Url, AuthError> {
        let url =
            Url::parse(text).map_err(|error| self.invalid_field(field, format!("is no URL ({error})")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(self.invalid_field(field, "must not hold a user or a password".to_owned()));
        }
        match url.scheme() {
            "https" => Ok(url),
            "http" if is_loopback(&url) => Ok(url),
            _ => Err(self.invalid_field(field, "must begin with https://".to_owned())),
        }
    }

    pub(crate) fn invalid_field(&self, field: &'static str, reason: String) -> AuthError {
        AuthError::Client { name: self.name.clone(), field, reason }
    }
}
