//! Discovery of the authorisation server of a server: first the resource's metadata (RFC 9728), then those of
//! the authorisation server (RFC 8414).

use std::time::Duration;

use reqwest::{StatusCode, Url};
use serde::Deserialize;
use zk_auth::Http;
use zk_auth::http::{Received, is_loopback, read_up_to_limit, root_cause};
use zk_core::model::is_public_address;

use super::SignInError;
use super::challenge::Challenge;

/// Limits on time and size of one metadata document.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(10);
const MAX_DOCUMENT_BYTES: usize = 256 << 10;

/// Metadata needed for a sign-in to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Discovered {
    pub(super) server: AuthorizationServer,
    /// Resource to request tokens for, as the server names itself; `None` for servers before 2025-06-18.
    pub(super) resource: Option<String>,
    /// Scopes that the server supports.
    pub(super) scopes: Vec<String>,
}

/// Metadata of an authorisation server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(super) scopes_supported: Vec<String>,
    pub(super) client_id_metadata_document_supported: bool,
    pub(super) authorization_response_iss_parameter_supported: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProtectedResource {
    resource: String,
    authorization_servers: Vec<String>,
    scopes_supported: Vec<String>,
}

/// Discovers the authorisation server for the server at `url`.
pub(super) async fn discover(
    http: &Http,
    url: &Url,
    challenge: &Challenge,
) -> Result<Discovered, SignInError> {
    let Some(resource) = protected_resource(http, url, challenge).await? else {
        return legacy_metadata(http, url).await;
    };
    if !covers(&resource.resource, url) {
        let named = quote_untrusted(&resource.resource);
        return Err(SignInError::server_error(format!(
            "it says that it is {named}, which is another server"
        )));
    }
    let issuer = resource.authorization_servers.first();
    let issuer = issuer.ok_or_else(|| SignInError::server_error("it names no authorisation server"))?;
    let found = authorization_server(http, url, issuer).await?;
    let server = found.ok_or_else(|| {
        SignInError::server_error(format!(
            "the authorisation server {} has no metadata",
            quote_untrusted(issuer)
        ))
    })?;
    check_metadata(&server, url)?;
    Ok(Discovered { server, resource: Some(resource.resource), scopes: resource.scopes_supported })
}

async fn protected_resource(
    http: &Http,
    url: &Url,
    challenge: &Challenge,
) -> Result<Option<ProtectedResource>, SignInError> {
    if let Some(place) = &challenge.resource_metadata {
        let place = parse_address(place, url)?;
        return match fetch(http, &place).await? {
            Some(found) => Ok(Some(found)),
            None => Err(SignInError::server_error(format!(
                "{} has no metadata of it",
                quote_untrusted(place.as_str())
            ))),
        };
    }
    let path = url.path().trim_end_matches('/');
    let mut places = vec![format!("/.well-known/oauth-protected-resource{path}")];
    if !path.is_empty() {
        places.push("/.well-known/oauth-protected-resource".to_owned());
    }
    for place in places {
        if let Some(found) = fetch(http, &url_with_path(url, &place)).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the metadata of a server of revision 2025-03-26, which is its own authorisation server, with
/// default endpoints.
async fn legacy_metadata(http: &Http, url: &Url) -> Result<Discovered, SignInError> {
    let origin = url.origin().ascii_serialization();
    let server = match authorization_server(http, url, &origin).await? {
        Some(server) => {
            check_metadata(&server, url)?;
            server
        }
        None => AuthorizationServer {
            authorization_endpoint: url_with_path(url, "/authorize").into(),
            token_endpoint: url_with_path(url, "/token").into(),
            registration_endpoint: Some(url_with_path(url, "/register").into()),
            token_endpoint_auth_methods_supported: Some(vec!["none".to_owned()]),
            issuer: origin,
            ..AuthorizationServer::default()
        },
    };
    Ok(Discovered { server, resource: None, scopes: Vec::new() })
}

/// Fetches the metadata of an issuer, which must contain exactly that issuer's name.
async fn authorization_server(
    http: &Http,
    base: &Url,
    issuer: &str,
) -> Result<Option<AuthorizationServer>, SignInError> {
    let url = parse_address(issuer, base)?;
    let path = url.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    for place in places {
        let Some(found) = fetch::<AuthorizationServer>(http, &url_with_path(&url, &place)).await? else {
            continue;
        };
        if found.issuer != issuer {
            let (own, asked) = (quote_untrusted(&found.issuer), quote_untrusted(issuer));
            let why = format!("the metadata of {asked} are those of another issuer, {own}");
            return Err(SignInError::server_error(why));
        }
        return Ok(Some(found));
    }
    Ok(None)
}

/// Checks the metadata of an authorisation server before anything is sent to it.
fn check_metadata(server: &AuthorizationServer, base: &Url) -> Result<(), SignInError> {
    let methods = server.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        let issuer = quote_untrusted(&server.issuer);
        return Err(SignInError::server_error(format!(
            "the authorisation server {issuer} does not say that it protects codes (PKCE with S256)"
        )));
    }
    let registration = server.registration_endpoint.iter().map(String::as_str);
    let endpoints = [server.authorization_endpoint.as_str(), server.token_endpoint.as_str()];
    for endpoint in endpoints.into_iter().chain(registration) {
        parse_address(endpoint, base)?;
    }
    Ok(())
}

/// Whether `resource` names the server at `url`: the same origin and no other path.
fn covers(resource: &str, url: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let own = resource.path().trim_end_matches('/');
    let rest = url.path().trim_end_matches('/').strip_prefix(own);
    resource.origin() == url.origin() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Parses an address from a server's metadata and checks it: it must use TLS, and not lead to this machine or
/// a private network unless the server itself is there. Otherwise a remote server could make zk send requests
/// to hosts that only zk can reach. The addresses behind host names are checked on resolution
/// ([`Http::restricted_for_server`]).
pub(super) fn parse_address(text: &str, base: &Url) -> Result<Url, SignInError> {
    let refuse =
        |why: &str| Err(SignInError::server_error(format!("the address {} {why}", quote_untrusted(text))));
    let Ok(url) = Url::parse(text) else { return refuse("is none") };
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("holds a user or a password");
    }
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        _ => return refuse("must begin with https://"),
    }
    if is_local_or_private(&url) && !is_local_or_private(base) {
        return refuse("is one of this machine or of a private network, and the server is not");
    }
    Ok(url)
}

/// Whether a host is this machine, or written as a non-public IP address.
fn is_local_or_private(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_inside = host.parse().is_ok_and(|address| !is_public_address(address));
    is_inside || is_loopback(url)
}

fn url_with_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Fetches a JSON document; `None` if it does not exist. Redirects are not followed, since they would bypass
/// the checks.
async fn fetch<T: for<'de> Deserialize<'de>>(http: &Http, url: &Url) -> Result<Option<T>, SignInError> {
    let failed = |why: String| SignInError::Unreachable { place: quote_untrusted(url.as_str()), why };
    let client = http.client(url).map_err(|error| failed(error.to_string()))?;
    let asking = async {
        let request = client.get(url.clone()).header("accept", "application/json");
        let response = request.send().await.map_err(|error| failed(root_cause(&error)))?;
        match response.status() {
            StatusCode::OK => {}
            status if status.is_client_error() => return Ok(None),
            status => return Err(failed(format!("HTTP {}", status.as_u16()))),
        }
        let mut body = Received::default();
        read_up_to_limit(response, MAX_DOCUMENT_BYTES, &mut body).await;
        if !body.is_whole {
            return Err(failed(format!("its answer has more than {MAX_DOCUMENT_BYTES} bytes, or broke off")));
        }
        Ok(Some(body.bytes))
    };
    let body = tokio::time::timeout(ANSWER_TIME_LIMIT, asking)
        .await
        .unwrap_or_else(|_| Err(failed(format!("no answer within {} s", ANSWER_TIME_LIMIT.as_secs()))))?;
    let Some(body) = body else { return Ok(None) };
    let document = serde_json::from_slice(&body);
    document.map(Some).map_err(|_| failed("its answer is no metadata".to_owned()))
}

/// Sanitises text of a server and truncates it to 200 characters.
pub(super) fn quote_untrusted(text: &str) -> String {
    zk_core::service::visible_line(&text.chars().take(200).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_covered_by_its_own_name_and_paths_above_it_only() {
        let url = Url::parse("https://h.example/mcp/one").unwrap();
        for own in ["https://h.example", "https://h.example/mcp", "https://h.example/mcp/one/"] {
            assert!(covers(own, &url), "{own}");
        }
        for other in
            ["https://h.example/mc", "https://h.example/mcp/two", "https://evil.example/mcp", "", "h"]
        {
            assert!(!covers(other, &url), "{other}");
        }
    }

    #[test]
    fn remote_servers_cannot_name_addresses_that_only_this_machine_reaches() {
        let (far, near) =
            (Url::parse("https://h.example/").unwrap(), Url::parse("http://127.0.0.1:1/").unwrap());
        for text in [
            "http://127.0.0.1/x",
            "https://localhost/x",
            "https://10.0.0.1/",
            "https://169.254.169.254/",
            "https://[::ffff:10.0.0.1]/",
            "https://100.64.0.1/",
            "https://0.0.0.0/",
            "https://[64:ff9b::a00:1]/",
            "https://2130706433/",
            "https://[fd00::1]/",
        ] {
            assert!(parse_address(text, &far).is_err(), "{text}");
            assert!(parse_address(text, &near).is_ok(), "{text}");
        }
        for text in
            ["http://h.example/", "javascript:alert(1)", "file:///etc/passwd", "https://u:p@h.example/"]
        {
            assert!(parse_address(text, &near).is_err(), "{text}");
        }
    }
}
