//! Client identity of zk at an authorisation server: configured, published at an address, or registered
//! dynamically.

use std::time::Duration;

use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zk_auth::http::{Received, read_up_to_limit, root_cause};
use zk_auth::{ClientAuth, Http, IssuerRule, OAuthClient, Redirect};

use super::SignInError;
use super::discovery::{AuthorizationServer, Discovered, quote_untrusted};
use crate::config::oauth_config::OAuthConfig;

const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(15);
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Client registration at one authorisation server, stored for refreshes and later sign-ins. Useless at any
/// other server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Registration {
    pub(super) issuer: String,
    pub(super) authorize_url: String,
    pub(super) token_url: String,
    pub(super) client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    pub(super) auth: AuthMethod,
    /// Callback port, if it is part of the registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u16>,
    /// Whether the server has to name itself in its responses.
    pub(super) names_issuer: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<String>,
    /// Scopes that the last sign-in requested.
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    /// Scopes that calls have required since.
    #[serde(default)]
    pub(super) wanted: Vec<String>,
}

/// Method by which the client authenticates at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuthMethod {
    None,
    Basic,
    Post,
}

impl AuthMethod {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post].into_iter().find(|method| method.name() == name)
    }
}

impl Registration {
    /// Converts to a client of `zk-auth`; its tokens are stored under `name`.
    pub(super) fn client(&self, name: String) -> OAuthClient {
        let secret = || self.client_secret.clone().unwrap_or_default().into();
        OAuthClient {
            issuer: Some(self.issuer.clone()),
            issuer_rule: if self.names_issuer { IssuerRule::Required } else { IssuerRule::Exact },
            auth: match self.auth {
                AuthMethod::None => ClientAuth::None,
                AuthMethod::Basic => ClientAuth::Basic(secret()),
                AuthMethod::Post => ClientAuth::Post(secret()),
            },
            scopes: self.scopes.clone(),
            resource: self.resource.clone(),
            redirect: Redirect::Loopback {
                host: "127.0.0.1".to_owned(),
                port: self.port,
                path: "/callback".to_owned(),
            },
            ..OAuthClient::new(name, &self.client_id, &self.authorize_url, &self.token_url)
        }
    }

    /// Creates a registration with these credentials and the discovered metadata.
    fn new(found: &Discovered, client_id: String, client_secret: Option<String>, auth: AuthMethod) -> Self {
        let server = &found.server;
        Self {
            issuer: server.issuer.clone(),
            authorize_url: server.authorization_endpoint.clone(),
            token_url: server.token_endpoint.clone(),
            client_id,
            client_secret,
            auth,
            port: None,
            names_issuer: server.authorization_response_iss_parameter_supported,
            resource: found.resource.clone(),
            scopes: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// Returns the registration updated with newly discovered metadata.
    pub(super) fn renewed(&self, found: &Discovered) -> Self {
        let known = Self::new(found, self.client_id.clone(), self.client_secret.clone(), self.auth);
        Self { port: self.port, scopes: self.scopes.clone(), wanted: self.wanted.clone(), ..known }
    }
}

/// Returns a client that needs no registration: one from settings, or one whose metadata the server reads
/// from an address.
pub(super) fn without_registration(
    found: &Discovered,
    config: &OAuthConfig,
    metadata_url: Option<&str>,
) -> Option<Registration> {
    let server = &found.server;
    if let Some(id) = &config.client_id {
        let auth = match &config.client_secret {
            None => AuthMethod::None,
            Some(_) => with_secret(server),
        };
        let registration = Registration::new(found, id.clone(), config.client_secret.clone(), auth);
        return Some(Registration { port: config.port, ..registration });
    }
    let url = config.client_metadata_url.as_deref().or(metadata_url)?;
    server.client_id_metadata_document_supported.then(|| {
        let registration = Registration::new(found, url.to_owned(), None, AuthMethod::None);
        Registration { port: config.port, ..registration }
    })
}

/// Chooses an authentication method with a secret that the server supports.
fn with_secret(server: &AuthorizationServer) -> AuthMethod {
    match &server.token_endpoint_auth_methods_supported {
        Some(methods) if !methods.iter().any(|method| method == AuthMethod::Basic.name()) => AuthMethod::Post,
        Some(_) | None => AuthMethod::Basic,
    }
}

/// Registers zk dynamically as a native client (RFC 7591).
pub(super) async fn register(
    http: &Http,
    found: &Discovered,
    redirect: &str,
    scopes: &[String],
) -> Result<Registration, SignInError> {
    let server = &found.server;
    let issuer = quote_untrusted(&server.issuer);
    let Some(endpoint) = &server.registration_endpoint else {
        return Err(SignInError::server_error(format!(
            "the authorisation server {issuer} registers no clients by itself: register zk there, and set \
             `oauth.client_id` of the MCP server"
        )));
    };
    let methods = server.token_endpoint_auth_methods_supported.as_deref();
    let takes = |method: AuthMethod| methods.is_none_or(|all| all.iter().any(|one| one == method.name()));
    let method = [AuthMethod::None, AuthMethod::Basic, AuthMethod::Post].into_iter().find(|one| takes(*one));
    let method = method.ok_or_else(|| {
        SignInError::server_error(format!(
            "the authorisation server {issuer} takes no way to show who a client is"
        ))
    })?;
    let mut wanted = json!({
        "client_name": "zk",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method.name(),
        "application_type": "native",
    });
    if let (false, Value::Object(wanted)) = (scopes.is_empty(), &mut wanted) {
        wanted.insert("scope".to_owned(), scopes.join(" ").into());
    }
    let answer = post(http, endpoint, &wanted).await?;
    let text = |name: &str| answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let id = text("client_id").ok_or_else(|| {
        SignInError::server_error(format!(
            "the authorisation server {issuer} registered zk without a `client_id`"
        ))
    })?;
    let secret = text("client_secret").map(str::to_owned);
    let given = text("token_endpoint_auth_method").and_then(AuthMethod::from_name).unwrap_or(method);
    let auth = match (given, &secret) {
        (_, None) => AuthMethod::None,
        (AuthMethod::None, Some(_)) if methods.is_none() => AuthMethod::None,
        (AuthMethod::None, Some(_)) if takes(AuthMethod::None) => AuthMethod::None,
        (AuthMethod::None, Some(_)) => with_secret(server),
        (given, Some(_)) => given,
    };
    Ok(Registration::new(found, id.to_owned(), secret, auth))
}

async fn post(http: &Http, endpoint: &str, body: &Value) -> Result<Value, SignInError> {
    let failed = |why: String| SignInError::Unreachable { place: quote_untrusted(endpoint), why };
    let url = Url::parse(endpoint).map_err(|error| failed(error.to_string()))?;
    let client = http.client(&url).map_err(|error| failed(error.to_string()))?;
    let asking = async {
        let request = client.post(url).header("accept", "application/json").json(body);
        let response = request.send().await.map_err(|error| failed(root_cause(&error)))?;
        let status = response.status();
        let mut body = Received::default();
        read_up_to_limit(response, MAX_ANSWER_BYTES, &mut body).await;
        let answer: Value = serde_json::from_slice(&body.bytes).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
        let why = format!("{} {}", text("error"), text("error_description"));
        Err(failed(format!(
            "it did not register zk: HTTP {} {}",
            status.as_u16(),
            quote_untrusted(why.trim())
        )))
    };
    tokio::time::timeout(ANSWER_TIME_LIMIT, asking)
        .await
        .unwrap_or_else(|_| Err(failed(format!("no answer within {} s", ANSWER_TIME_LIMIT.as_secs()))))
}
