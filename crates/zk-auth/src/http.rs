//! HTTP clients of zk. All are built here; only this module exports types of `reqwest`, for crates that may
//! use them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, ClientBuilder, Response, Url, redirect};

use crate::reach::Reach;

/// Time limit for establishing a connection.
const CONNECT: Duration = Duration::from_secs(15);

/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(90);
/// Time after which an idle connection to a local server is closed: such servers close theirs after 5 s, and
/// reconnecting is cheap there.
const LOCAL_IDLE: Duration = Duration::from_secs(4);

/// HTTP clients, built on first use and shared by all clones. Give each provider a clone of the same value.
///
/// ```
/// let http = zk_auth::Http::new();
/// let for_another_provider = http.clone();
/// # let _ = for_another_provider;
/// ```
#[derive(Clone)]
pub struct Http {
    clients: Arc<dyn ClientCells>,
    reach: Option<Arc<Reach>>,
}

/// Clients by security and place. Loading the system's certificates is slow, so plain HTTP has a client
/// without them; local addresses are never reached through a proxy.
#[derive(Default)]
struct Clients {
    secure: OnceLock<Client>,
    secure_local: OnceLock<Client>,
    plain: OnceLock<Client>,
    plain_local: OnceLock<Client>,
}

/// Storage of the clients. A trait object keeps the types of `reqwest` out of the futures of all users, which
/// shortens compile time.
trait ClientCells: Send + Sync {
    fn cell(&self, secure: bool, local: bool) -> &OnceLock<Client>;
}

impl ClientCells for Clients {
    fn cell(&self, secure: bool, local: bool) -> &OnceLock<Client> {
        match (secure, local) {
            (true, false) => &self.secure,
            (true, true) => &self.secure_local,
            (false, false) => &self.plain,
            (false, true) => &self.plain_local,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { clients: Arc::new(Clients::default()), reach: None }
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}

impl Http {
    /// Creates the set of HTTP clients, none of which is built yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Clients for addresses that the server at `server` provides. They connect to no address of this machine
    /// or of a private network, unless the server itself is in one. Each resolved address is checked, and
    /// only checked ones are used; proxies are not used, since they would resolve the name again.
    #[must_use]
    pub fn restricted_for_server(&self, server: &Url) -> Self {
        self.with_reach(Reach::of(server))
    }

    pub(crate) fn with_reach(&self, reach: Reach) -> Self {
        Self { reach: Some(Arc::new(reach)), ..Self::default() }
    }

    /// Client for `url`: without certificates for plain HTTP, without a proxy for local addresses.
    ///
    /// # Errors
    /// [`HttpError`] when no client can be built, or [`Http::restricted_for_server`] forbids the address.
    pub fn client(&self, url: &Url) -> Result<Client, HttpError> {
        if let Some(reason) = self.reach.as_ref().and_then(|reach| reach.refuse_literal(url)) {
            return Err(HttpError::Setup { reason });
        }
        let local = is_loopback(url);
        let secure = url.scheme() == "https";
        let cell = self.clients.cell(secure, local);
        if let Some(client) = cell.get() {
            return Ok(client.clone());
        }
        // Two concurrent first requests may both build a client; one of them is dropped.
        let client = build_client(secure, local, self.reach.as_ref())?;
        Ok(cell.get_or_init(|| client).clone())
    }
}

/// Reason why there is no HTTP client.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The program was built without TLS.
    #[error(
        "this program was built without TLS: use an `http://` address, or build it with the feature `tls`"
    )]
    NoTls,
    /// The client cannot be built, for example without certificates, or must not connect to the address.
    #[error("{reason}")]
    Setup {
        /// Cause, in words.
        reason: String,
    },
}

impl From<reqwest::Error> for HttpError {
    fn from(error: reqwest::Error) -> Self {
        Self::Setup { reason: root_cause(&error) }
    }
}

fn build_client(is_secure: bool, is_local: bool, reach: Option<&Arc<Reach>>) -> Result<Client, HttpError> {
    let bound = |settings: ClientBuilder| match reach {
        Some(reach) => settings.no_proxy().dns_resolver(reach.clone()),
        None => settings,
    };
    if is_secure { build_secure_client(is_local, bound) } else { build_plain_client(is_local, bound) }
}

fn build_plain_client(
    is_local: bool,
    more: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<Client, HttpError> {
    let settings = more(with_common_settings(is_local)).http1_only();
    #[cfg(feature = "tls")]
    let settings = {
        set_tls_provider();
        settings.tls_certs_only([])
    };
    Ok(settings.build()?)
}

#[cfg(feature = "tls")]
fn build_secure_client(
    is_local: bool,
    more: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Result<Client, HttpError> {
    use reqwest::Certificate;

    set_tls_provider();
    more(with_common_settings(is_local)).build().or_else(|error| {
        // Without system certificates, as in some containers, the bundled roots of browsers are used.
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|cert| Certificate::from_der(cert));
        match roots.collect::<Result<Vec<_>, _>>() {
            Ok(roots) => Ok(more(with_common_settings(is_local)).tls_certs_only(roots).build()?),
            Err(_) => Err(error.into()),
        }
    })
}

#[cfg(not(feature = "tls"))]
fn build_secure_client(_: bool, _: impl Fn(ClientBuilder) -> ClientBuilder) -> Result<Client, HttpError> {
    Err(HttpError::NoTls)
}

#[cfg(feature = "tls")]
fn set_tls_provider() {
    // An error means that another provider is installed, which works as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Common settings. There is no overall time limit, since a stream may be long. Redirects are off, as they
/// would send the prompt to another host.
#[expect(clippy::disallowed_methods, reason = "this is the one place that makes clients")]
fn with_common_settings(local: bool) -> ClientBuilder {
    let settings = Client::builder()
        .user_agent(concat!("zk/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT)
        .tcp_keepalive(Duration::from_secs(30))
        .pool_idle_timeout(if local { LOCAL_IDLE } else { IDLE });
    if local { settings.no_proxy() } else { settings }
}

/// Client for one request to `url` that connects only to the given `addresses`, ignoring DNS, proxies and
/// redirects: for addresses that were checked before.
///
/// # Errors
/// [`HttpError`] when no client can be built.
pub fn pinned_client(addresses: &[SocketAddr], url: &Url) -> Result<Client, HttpError> {
    let pin = |settings: ClientBuilder| settings.dns_resolver(Arc::new(Pinned(addresses.to_vec())));
    if url.scheme() == "https" { build_secure_client(true, pin) } else { build_plain_client(true, pin) }
}

/// Resolver that returns fixed addresses.
struct Pinned(Vec<SocketAddr>);

impl Resolve for Pinned {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

/// Whether a URL names this machine.
pub fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

/// Innermost cause of an error, since the outer ones repeat the URL.
#[must_use]
pub fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Received body of a response, possibly incomplete.
#[derive(Debug, Default)]
pub struct Received {
    /// Bytes of the body.
    pub bytes: Vec<u8>,
    /// Whether the body is complete.
    pub is_whole: bool,
}

/// Reads up to `limit` bytes of a response into `body`; errors only leave it incomplete.
pub async fn read_up_to_limit(mut response: Response, limit: usize, body: &mut Received) {
    while body.bytes.len() < limit {
        match response.chunk().await {
            Ok(Some(chunk)) => body.bytes.extend_from_slice(&chunk),
            Ok(None) => {
                body.is_whole = true;
                return;
            }
            Err(_) => return,
        }
    }
    body.bytes.truncate(limit);
}

/// Answer of a server to one request without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainAnswer {
    /// HTTP status code.
    pub status: u16,
    /// Beginning of the body, up to the requested number of bytes.
    pub body: Vec<u8>,
}

impl Http {
    /// Gets the first `most_bytes` bytes at `url`, and follows no redirect.
    ///
    /// # Errors
    /// [`HttpError`] for an address that makes no sense and for a server that does not answer whole within `limit`.
    pub async fn get_plain(
        &self,
        url: &str,
        most_bytes: usize,
        limit: Duration,
    ) -> Result<PlainAnswer, HttpError> {
        let setup = |reason: String| HttpError::Setup { reason };
        let parsed = Url::parse(url).map_err(|error| setup(format!("{url} is no address: {error}")))?;
        let request = self.client(&parsed)?.get(parsed).timeout(limit);
        let response = request.send().await?;
        let status = response.status().as_u16();
        let mut received = Received::default();
        read_up_to_limit(response, most_bytes, &mut received).await;
        if !received.is_whole && received.bytes.len() < most_bytes {
            return Err(setup("the answer broke off".to_owned()));
        }
        Ok(PlainAnswer { status, body: received.bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_needs_the_feature_and_plain_http_does_not() {
        let http = Http::new();
        assert!(http.client(&Url::parse("http://127.0.0.1:1").unwrap()).is_ok());
        let secure = http.client(&Url::parse("https://127.0.0.1:1").unwrap());
        assert_eq!(secure.is_ok(), cfg!(feature = "tls"));
        if let Err(error) = secure {
            assert!(error.to_string().contains("built without TLS"), "{error}");
        }
    }
}
