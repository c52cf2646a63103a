//! Destination and credentials of requests, which never appear in a model's identity, an event or an error.

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

/// Settings that no provider can be created from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The base URL is invalid.
    #[error("`{url}` is not a base URL ({reason}): it must look like `https://host/path`")]
    BaseUrl {
        /// URL as given.
        url: String,
        /// Description of the problem.
        reason: String,
    },
    /// The key contains characters that a header must not have. The message does not show it.
    #[error("the API key holds characters that cannot be sent, such as a line break: copy it again")]
    Key,
    /// A header is invalid.
    #[error("`{name}` cannot be sent as a header: its name or its value holds illegal characters")]
    Header {
        /// Name of the header.
        name: String,
    },
    /// A field of the extra body is reserved.
    #[error("`{name}` cannot be in the extra body: zk writes that field itself")]
    Field {
        /// Name of the field.
        name: String,
    },
    /// An option of the dialect is invalid.
    #[error("the options of {name} cannot be used: {reason}")]
    Options {
        /// Name of the provider.
        name: String,
        /// Description of the problem, with the valid values.
        reason: String,
    },
    /// The name of a model does not tell its provider.
    #[error("`{name}` could be any provider's: write `provider/model`, with one of {known}")]
    Model {
        /// Name as given.
        name: String,
        /// List of the known providers.
        known: String,
    },
    /// The service requires an account.
    #[error("{name} has to be told the account: sign in again")]
    Account {
        /// Name of the provider.
        name: String,
    },
    /// The sign-in tokens belong to another server and may only be sent to that one.
    #[error(
        "the tokens of this sign-in are not for {host}: remove the base URL, or use a key of that server"
    )]
    Host {
        /// Host of the base URL.
        host: String,
    },
}

/// Form of a dialect's base URLs.
#[derive(Clone, Copy, Debug)]
pub struct BaseUrl {
    /// Pasted suffixes to remove, such as `/v1/messages`.
    pub strip: &'static [&'static str],
    /// Sentence on the correct ending, for the error about a wrong URL.
    pub advice: &'static str,
}

pub(crate) struct Endpoint {
    base: Url,
    /// Advice on the dialect's base URLs, for the error about a wrong URL.
    advice: &'static str,
    /// Headers of every request, without the credential.
    headers: HeaderMap,
    /// Header of the key with the text before the key. Written for each request, so that the key is stored in
    /// one place only.
    key_header: Option<(HeaderName, String)>,
    http: Http,
    auth: Auth,
    /// Whether the base URL or a header identifies the person.
    is_private: bool,
    /// Redactor of everything secret: the key, tokens, the password in the base URL, and identifying headers.
    redactor: Redactor,
    /// Beta features that the server rejected, which are not requested again.
    refused: Mutex<Vec<Beta>>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("base", &self.base_url_for_display()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Creates the endpoint at `base`.
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
            sensitive_value(prefix, secret).ok_or(SetupError::Key)?;
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

    /// Removes the beta features that the server rejected earlier.
    pub(crate) fn without_refused(&self, headers: Headers) -> Headers {
        headers.without_betas(&self.refused())
    }

    /// Stops requesting these beta features from now on. Returns the ones that were still requested.
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

    /// Returns the base URL for display, without password and query.
    pub(crate) fn base_url_for_display(&self) -> String {
        let mut base = self.base.clone();
        let _ = base.set_username("");
        let _ = base.set_password(None);
        base.set_query(None);
        base.as_str().trim_end_matches('/').to_owned()
    }

    /// Returns a digest of the server and the credential. The path does not count, since one key has one
    /// quota for all dialects.
    pub(crate) fn quota_key(&self) -> String {
        let mut context = Context::new(&SHA256);
        let mut add = |part: &[u8]| {
            context.update(&part.len().to_be_bytes());
            context.update(part);
        };
        add(self.base.origin().ascii_serialization().as_bytes());
        match (&self.auth, self.auth.secret()) {
            (_, Some(secret)) => add(secret.expose_secret().trim().as_bytes()),
            // Tokens of a source change; the source itself does not.
            (Auth::Source(source), None) => add(format!("{:p}", Arc::as_ptr(source)).as_bytes()),
            // A key may be among the other headers; without any, the address alone counts.
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

    /// Creates a request to `path` below the base URL.
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
        Ok(request.header(name.clone(), sensitive_value(prefix, secret).ok_or_else(unusable)?))
    }

    /// Sends a request, with a token if the credential is a token source. A token that the server rejects is
    /// replaced once.
    pub(crate) async fn send(&self, request: RequestBuilder, cx: &Cx) -> Result<Response, WireError> {
        let Auth::Source(source) = &self.auth else { return self.send_as_is(request).await };
        let no_token = |error: AuthError| WireError::from(error).at(Phase::Request);
        let again = request.try_clone();
        let token = source.token(cx).await.map_err(no_token)?;
        let response = self.send_as_is(self.with_token(&token, request, cx)?).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(again) = again
            && let Some(token) = source.replace(&token, cx).await.map_err(no_token)?
        {
            return self.send_as_is(self.with_token(&token, again, cx)?).await;
        }
        Ok(response)
    }

    async fn send_as_is(&self, request: RequestBuilder) -> Result<Response, WireError> {
        request.send().await.map_err(|error| self.connection_error(&error))
    }

    fn with_token(
        &self,
        token: &Secret,
        request: RequestBuilder,
        cx: &Cx,
    ) -> Result<RequestBuilder, WireError> {
        let value = sensitive_value("Bearer ", token).ok_or_else(|| {
            WireError::new(ErrorKind::Auth, "the stored token cannot be sent: sign in again")
        })?;
        self.redactor.learn_key(token.expose_secret());
        if let Some(redactor) = cx.service::<Redactor>() {
            redactor.learn(token.expose_secret());
        }
        Ok(request.header(AUTHORIZATION, value))
    }

    /// Converts a response with an error status to an error.
    pub(crate) fn response_error(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &Received,
    ) -> WireError {
        // Redacted before any quotation, which could end in the middle of a key.
        let redacted = self.redacted(&String::from_utf8_lossy(&body.bytes));
        let error = error::of_partial_response(
            status,
            headers,
            redacted.as_bytes(),
            body.is_whole,
            SystemTime::now(),
        );
        let error = self.without_secrets(error).at(Phase::Response);
        let error = match &self.auth {
            Auth::None if !self.is_private => error.with_missing_key_hint(),
            Auth::Source(_) if error.kind == ErrorKind::Auth => {
                WireError { code: Some(ProviderError::SIGN_IN.to_owned()), ..error }
            }
            // The server itself reports a missing key.
            _ if error.kind == ErrorKind::Auth && error.hint.as_deref() == advice::NO_KEY => {
                WireError { code: Some(ProviderError::NO_KEY.to_owned()), ..error }
            }
            Auth::None | Auth::Source(_) | Auth::Key(_) | Auth::Bearer(_) | Auth::Header { .. } => error,
        };
        let lost = status == StatusCode::NOT_FOUND && !error.message.to_lowercase().contains("model");
        if lost && error.hint.is_none() {
            let hint = format!("Is the base URL {} right? {}", self.base_url_for_display(), self.advice);
            return error.hint(hint);
        }
        error
    }

    /// Converts a failure to get a response to an error.
    pub(crate) fn connection_error(&self, error: &reqwest::Error) -> WireError {
        let cause = root_cause(error);
        let place = self.base_url_for_display();
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
            // No server listens on this machine, which is certain at once; retries would only delay the
            // message.
            error.hint("Is the server running, and is this its port?").never_retry()
        } else {
            error.hint("Check the base URL and the network connection")
        }
    }

    /// Converts the failure of a response that broke off to an error.
    pub(crate) fn interruption_error(&self, error: &reqwest::Error) -> WireError {
        WireError::new(
            ErrorKind::Transport,
            format!("the connection to {} broke: {}", self.base_url_for_display(), root_cause(error)),
        )
    }

    /// Redacts all fields of an error, since some servers quote the key that they were sent.
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

    /// Redacts a text of the server for display.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.redactor.redact(&without_userinfo(text)).into_owned()
    }

    /// Redacts the parts of an event for display other than the answer itself.
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

    /// Returns the provider's id of a request, from any of the usual headers.
    pub(crate) fn request_id(&self, headers: &HeaderMap) -> Option<String> {
        let id = REQUEST_IDS.iter().find_map(|name| headers.get(*name)?.to_str().ok())?;
        Some(self.redacted(id))
    }

    /// Returns the rate-limit headers.
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

/// Returns the header value with a key, marked as sensitive.
fn sensitive_value(prefix: &str, secret: &Secret) -> Option<HeaderValue> {
    let text = Zeroizing::new(format!("{prefix}{}", secret.expose_secret().trim()));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether a header of this name identifies the person.
fn is_private(name: &str) -> bool {
    ["auth", "key", "token", "secret", "cookie"].iter().any(|part| name.contains(part))
}

/// Returns the secret parts of a base URL.
fn secrets_of(base: &Url) -> Vec<Secret> {
    let password = base.password();
    // Without a password, the user name itself is the secret.
    let user = Some(base.username()).filter(|user| password.is_none() && !user.is_empty());
    let mut secrets = Vec::new();
    for text in password.into_iter().chain(user) {
        secrets.push(Secret::from(text));
        secrets.push(Secret::from(percent_decode(text)));
    }
    let query = base.query_pairs().filter(|(name, _)| is_private(&name.to_lowercase()));
    secrets.extend(query.map(|(_, value)| Secret::from(value.into_owned())));
    secrets
}

/// Decodes percent-encoded text of a URL.
fn percent_decode(text: &str) -> String {
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
