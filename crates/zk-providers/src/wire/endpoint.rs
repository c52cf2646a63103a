//! Destination of requests, and what they show there: never part of a model's identity, an event or an error.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use ring::digest::{Context, SHA256};
use secrecy::ExposeSecret;
use secrecy::zeroize::Zeroizing;
use zk_auth::http::{Http, Received, is_loopback, root_cause};
use zk_auth::{AuthError, Secret};
use zk_core::kernel::Cx;
use zk_core::model::{ErrorKind, Phase, ProviderError, StopReason};
use zk_core::service::{Redactor, StreamEvent};

use crate::catalogue::errors::advice;
use crate::catalogue::names::REQUEST_IDS;
use crate::wire::error::{self, WireError};
use crate::wire::request::{Beta, Headers};
use crate::wire::secret::{Auth, without_userinfo};

/// Settings no provider can be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The base URL is none.
    #[error("`{url}` is not a base URL ({reason}): it must look like `https://host/path`")]
    BaseUrl {
        /// The URL as given.
        url: String,
        /// Fault of the URL, in words.
        reason: String,
    },
    /// The key cannot stand in a header. It is not shown.
    #[error("the API key holds characters that cannot be sent, such as a line break: copy it again")]
    Key,
    /// A header is not one.
    #[error("`{name}` cannot be sent as a header: its name or its value holds illegal characters")]
    Header {
        /// The header's name.
        name: String,
    },
    /// A field of the extra body is zk's own.
    #[error("`{name}` cannot be in the extra body: zk writes that field itself")]
    Field {
        /// The field.
        name: String,
    },
    /// A setting of the dialect that cannot be.
    #[error("the options of {name} cannot be used: {reason}")]
    Options {
        /// The provider.
        name: String,
        /// Fault of the setting, and what there is.
        reason: String,
    },
    /// The name of a model does not say whose it is.
    #[error("`{name}` could be any provider's: write `provider/model`, with one of {known}")]
    Model {
        /// The name as given.
        name: String,
        /// The providers there are.
        known: String,
    },
    /// The service wants to know whose requests they are.
    #[error("{name} has to be told the account: sign in again")]
    Account {
        /// The provider.
        name: String,
    },
    /// The tokens are for another server, and are not shown to this one.
    #[error(
        "the tokens of this sign-in are not for {host}: remove the base URL, or use a key of that server"
    )]
    Host {
        /// The host of the base URL.
        host: String,
    },
}

/// Shape of the base URLs of a dialect.
#[derive(Clone, Copy, Debug)]
pub struct BaseUrl {
    /// Endings that people paste along and that are left out: `/v1/messages`.
    pub strip: &'static [&'static str],
    /// A sentence on how it ends, for the error of a wrong one.
    pub advice: &'static str,
}

pub(crate) struct Endpoint {
    base: Url,
    /// Sentence on how the dialect's base URLs end.
    advice: &'static str,
    /// Headers that hold no key of `auth`.
    headers: HeaderMap,
    /// Header of the key, and what stands before the key. It is written there for each request, so that it is
    /// kept in one place only.
    key_header: Option<(HeaderName, String)>,
    http: Http,
    auth: Auth,
    /// Whether the base URL or a header says who asks.
    is_private: bool,
    /// Knows what nobody may see: the key, the tokens that were shown, the password of the base URL, and headers that
    /// say who asks.
    redactor: Redactor,
    /// Beta features that the server refused, and is asked for no more.
    refused: Mutex<Vec<Beta>>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("base", &self.place()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The endpoint at `base`.
    pub(crate) fn new(
        base: &str,
        shape: BaseUrl,
        auth: Auth,
        key_header: Option<&'static str>,
        extra: &[(String, String)],
        http: Http,
    ) -> Result<Self, SetupError> {
        let mut headers = HeaderMap::new();
        let mut private = Vec::new();
        for (name, value) in extra {
            let illegal = || SetupError::Header { name: name.clone() };
            let key = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| illegal())?;
            let mut sent = HeaderValue::from_str(value.trim()).map_err(|_| illegal())?;
            sent.set_sensitive(true);
            if is_private(key.as_str()) {
                private.push(Secret::from(value.trim()));
                private.extend(value.trim().split_once(' ').map(|(_, value)| Secret::from(value.trim())));
            }
            headers.insert(key, sent);
        }
        let (name, prefix) = match (&auth, key_header) {
            (Auth::None | Auth::Source(_), _) => (None, ""),
            (Auth::Key(_), Some(name)) => (Some(HeaderName::from_static(name)), ""),
            (Auth::Key(_), None) | (Auth::Bearer(_), _) => (Some(AUTHORIZATION), "Bearer "),
            (Auth::Header { name, prefix, .. }, _) => {
                let illegal = |_| SetupError::Header { name: name.clone() };
                (Some(HeaderName::from_bytes(name.trim().as_bytes()).map_err(illegal)?), prefix.as_str())
            }
        };
        let key_header = name.map(|name| (name, prefix.to_owned()));
        if let (Some((name, prefix)), Some(secret)) = (&key_header, auth.secret()) {
            sensitive(prefix, secret).ok_or(SetupError::Key)?;
            headers.remove(name);
        }
        let base = parse_base(base, shape.strip)?;
        private.extend(secrets_of(&base));
        if let (Auth::Source(source), Some(host)) = (&auth, base.host_str())
            && !source.serves(host)
        {
            return Err(SetupError::Host { host: host.to_owned() });
        }
        let redactor = Redactor::new();
        for secret in auth.secret().into_iter().chain(&private) {
            redactor.learn_key(secret.expose_secret());
        }
        let (advice, is_private) = (shape.advice, !private.is_empty());
        Ok(Self {
            base,
            advice,
            headers,
            key_header,
            http,
            auth,
            is_private,
            redactor,
            refused: Mutex::default(),
        })
    }

    /// The headers without the beta features that were refused here before.
    pub(crate) fn without_refused(&self, headers: Headers) -> Headers {
        headers.without_betas(&self.refused())
    }

    /// Leaves these beta features out of all requests from now on. Gives those that were not left out before.
    pub(crate) fn leave_out(&self, betas: Vec<Beta>) -> Vec<Beta> {
        let mut refused = self.refused();
        let new: Vec<Beta> = betas.into_iter().filter(|beta| !refused.contains(beta)).collect();
        refused.extend(new.iter().cloned());
        new
    }

    fn refused(&self) -> MutexGuard<'_, Vec<Beta>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.base)
    }

    /// The base URL as it may be shown: without a password or a query.
    pub(crate) fn place(&self) -> String {
        let mut base = self.base.clone();
        let _ = base.set_username("");
        let _ = base.set_password(None);
        base.set_query(None);
        base.as_str().trim_end_matches('/').to_owned()
    }

    /// A digest of the server and of what is shown there. The path does not count: one key has one quota,
    /// whatever dialect is spoken with it.
    pub(crate) fn quota_key(&self) -> String {
        let mut context = Context::new(&SHA256);
        let mut add = |part: &[u8]| {
            context.update(&part.len().to_be_bytes());
            context.update(part);
        };
        add(self.base.origin().ascii_serialization().as_bytes());
        match (&self.auth, self.auth.secret()) {
            (_, Some(secret)) => add(secret.expose_secret().trim().as_bytes()),
            // Tokens of a source change; who gives them does not.
            (Auth::Source(source), None) => add(format!("{:p}", Arc::as_ptr(source)).as_bytes()),
            // A key may stand among the other headers, and without any the address is all there is.
            (_, None) => {
                add(self.base.username().as_bytes());
                add(self.base.password().unwrap_or_default().as_bytes());
                for (name, value) in &self.headers {
                    add(name.as_str().as_bytes());
                    add(value.as_bytes());
                }
            }
        }
        URL_SAFE_NO_PAD.encode(context.finish())
    }

    /// A request to `path` below the base URL.
    pub(crate) fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, WireError> {
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        if query.is_some() {
            url.set_query(query);
        }
        let client = self.http.client(&self.base).map_err(|error| {
            WireError::new(ErrorKind::Transport, format!("no HTTP client: {error}"))
                .at(Phase::Connect)
                .never_retry()
        })?;
        let request = client.request(method, url).headers(self.headers.clone());
        let Some(((name, prefix), secret)) = self.key_header.as_ref().zip(self.auth.secret()) else {
            return Ok(request);
        };
        let unusable = || WireError::new(ErrorKind::Auth, SetupError::Key.to_string());
        Ok(request.header(name.clone(), sensitive(prefix, secret).ok_or_else(unusable)?))
    }

    /// Sends a request, with a token where a source gives them. A token that the server rejects is replaced once.
    pub(crate) async fn send(&self, request: RequestBuilder, cx: &Cx) -> Result<Response, WireError> {
        let Auth::Source(source) = &self.auth else { return self.send_as_is(request).await };
        let no_token = |error: AuthError| WireError::from(error).at(Phase::Request);
        let again = request.try_clone();
        let token = source.token(cx).await.map_err(no_token)?;
        let response = self.send_as_is(self.showing(&token, request, cx)?).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(again) = again
            && let Some(token) = source.replace(&token, cx).await.map_err(no_token)?
        {
            return self.send_as_is(self.showing(&token, again, cx)?).await;
        }
        Ok(response)
    }

    async fn send_as_is(&self, request: RequestBuilder) -> Result<Response, WireError> {
        request.send().await.map_err(|error| self.unreachable(&error))
    }

    fn showing(&self, token: &Secret, request: RequestBuilder, cx: &Cx) -> Result<RequestBuilder, WireError> {
        let value = sensitive("Bearer ", token).ok_or_else(|| {
            WireError::new(ErrorKind::Auth, "the stored token cannot be sent: sign in again")
        })?;
        self.redactor.learn_key(token.expose_secret());
        if let Some(redactor) = cx.service::<Redactor>() {
            redactor.learn(token.expose_secret());
        }
        Ok(request.header(AUTHORIZATION, value))
    }

    /// The failure a response stands for whose status says so.
    pub(crate) fn failed(&self, status: StatusCode, headers: &HeaderMap, body: &Received) -> WireError {
        // Before anything of it is quoted: a quotation may end in the middle of a key.
        let redacted = self.redacted(&String::from_utf8_lossy(&body.bytes));
        let error = error::of_part(status, headers, redacted.as_bytes(), body.is_whole, SystemTime::now());
        let error = self.without_secrets(error).at(Phase::Response);
        let error = match &self.auth {
            Auth::None if !self.is_private => error.with_missing_key_hint(),
            Auth::Source(_) if error.kind == ErrorKind::Auth => {
                WireError { code: Some(ProviderError::SIGN_IN.to_owned()), ..error }
            }
            // Some say themselves that none reached them.
            _ if error.kind == ErrorKind::Auth && error.hint.as_deref() == advice::NO_KEY => {
                WireError { code: Some(ProviderError::NO_KEY.to_owned()), ..error }
            }
            Auth::None | Auth::Source(_) | Auth::Key(_) | Auth::Bearer(_) | Auth::Header { .. } => error,
        };
        let lost = status == StatusCode::NOT_FOUND && !error.message.to_lowercase().contains("model");
        if lost && error.hint.is_none() {
            let hint = format!("Is the base URL {} right? {}", self.place(), self.advice);
            return error.hint(hint);
        }
        error
    }

    /// The failure of a request that brought no response.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> WireError {
        let cause = root_cause(error);
        let place = self.place();
        if !error.is_connect() {
            let message = format!("the connection to {place} broke: {cause}");
            return WireError::new(ErrorKind::Transport, message);
        }
        let error =
            WireError::new(ErrorKind::Transport, format!("cannot reach {place}: {cause}")).at(Phase::Connect);
        let cause = cause.to_lowercase();
        if cause.contains("certificate") {
            error
                .hint("The server's certificate is not trusted here: check the address and the clock")
                .never_retry()
        } else if self.is_loopback() {
            // Nobody listens on this machine, and this is known at once: waiting would only hide it.
            error.hint("Is the server running, and is this its port?").never_retry()
        } else {
            error.hint("Check the base URL and the network connection")
        }
    }

    /// The failure of a response that broke off.
    pub(crate) fn broken(&self, error: &reqwest::Error) -> WireError {
        WireError::new(
            ErrorKind::Transport,
            format!("the connection to {} broke: {}", self.place(), root_cause(error)),
        )
    }

    /// Some servers quote the key they were given, and not only where a text for people stands.
    pub(crate) fn without_secrets(&self, error: WireError) -> WireError {
        let shown = |text: Option<String>| text.map(|text| self.redacted(&text));
        WireError {
            message: self.redacted(&error.message),
            code: shown(error.code),
            request_id: shown(error.request_id),
            hint: shown(error.hint),
            ..error
        }
    }

    /// `text` from the server as it may be shown.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.redactor.redact(&without_userinfo(text)).into_owned()
    }

    /// Redacts what an event of a response says beside the answer itself, so that it may be shown.
    pub(crate) fn redact_event(&self, event: &mut StreamEvent) {
        match event {
            StreamEvent::Start { model, request_id } => {
                for text in [model, request_id].into_iter().flatten() {
                    *text = self.redacted(text);
                }
            }
            StreamEvent::Done { stop: StopReason::Refusal(Some(text)) | StopReason::Other(text), .. } => {
                *text = self.redacted(text);
            }
            StreamEvent::Done { .. }
            | StreamEvent::Text { .. }
            | StreamEvent::Thinking { .. }
            | StreamEvent::ToolCall { .. }
            | StreamEvent::ToolArgs { .. }
            | StreamEvent::Block { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::Report(_)
            | StreamEvent::Retry(_) => {}
        }
    }

    /// The provider's id of a request, under the names in use.
    pub(crate) fn request_id(&self, headers: &HeaderMap) -> Option<String> {
        let id = REQUEST_IDS.iter().find_map(|name| headers.get(*name)?.to_str().ok())?;
        Some(self.redacted(id))
    }

    /// The headers that say how much may still be asked.
    pub(crate) fn limits(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let is_limit = |name: &str| name.contains("ratelimit") || name.starts_with("retry-after");
        let mut limits: Vec<_> = headers
            .iter()
            .filter(|(name, _)| is_limit(name.as_str()))
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), self.redacted(value.to_str().ok()?))))
            .collect();
        limits.sort();
        limits
    }
}

/// The value of a header that shows a key.
fn sensitive(prefix: &str, secret: &Secret) -> Option<HeaderValue> {
    let text = Zeroizing::new(format!("{prefix}{}", secret.expose_secret().trim()));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether a header of this name says who asks.
fn is_private(name: &str) -> bool {
    ["auth", "key", "token", "secret", "cookie"].iter().any(|part| name.contains(part))
}

/// Returns the parts of a base URL that nobody may see.
fn secrets_of(base: &Url) -> Vec<Secret> {
    let password = base.password();
    // Without a password the name itself is the secret.
    let user = Some(base.username()).filter(|user| password.is_none() && !user.is_empty());
    let mut secrets = Vec::new();
    for text in password.into_iter().chain(user) {
        secrets.push(Secret::from(text));
        secrets.push(Secret::from(decoded(text)));
    }
    let query = base.query_pairs().filter(|(name, _)| is_private(&name.to_lowercase()));
    secrets.extend(query.map(|(_, value)| Secret::from(value.into_owned())));
    secrets
}

/// `text` of a URL as it was before it became part of one.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match hex.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn parse_base(base: &str, strip: &[&str]) -> Result<Url, SetupError> {
    let wrong = |reason: String| SetupError::BaseUrl { url: without_userinfo(base), reason };
    let mut text = base.trim().trim_end_matches('/');
    for ending in strip {
        text = text.strip_suffix(ending).unwrap_or(text).trim_end_matches('/');
    }
    let mut url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("neither http nor https".to_owned()));
    }
    if url.host_str().is_none() {
        return Err(wrong("no host".to_owned()));
    }
    url.set_fragment(None);
    Ok(url)
}
