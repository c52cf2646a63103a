use std::fmt;
use std::time::Duration;

use reqwest::Url;
use secrecy::ExposeSecret;
use tokio::time::timeout;

use super::callback::{Answer, Callback, Expected, answer_of};
use super::client::{OAuthClient, Redirect};
use super::token::{Grant, TokenEndpoint};
use super::{AuthError, OAuthTokens, pkce};
use crate::Secret;
use crate::http::Http;

/// Time limit of a request to the token endpoint.
pub(crate) const TOKEN_LIMIT: Duration = Duration::from_secs(30);

/// Sign-in with OAuth 2.1, using an authorisation code and PKCE.
///
/// Show [`url`](Self::url) to the person. The answer arrives through the browser, for which
/// [`callback`](Self::callback) waits, or is [`pasted`](Self::pasted); [`exchange`](Self::exchange) trades
/// the first valid one for tokens. Invalid answers are ignored, as the valid one may still come.
///
/// ```no_run
/// # async fn sign_in() -> Result<(), zk_auth::AuthError> {
/// use std::time::Duration;
/// use zk_auth::{Credential, CredentialStore, Http, Login, MemoryStore, OAuthClient};
///
/// let client = OAuthClient::new("example", "zk", "https://example.com/authorize", "https://example.com/token");
/// let login = Login::begin(client, Http::new()).await?;
/// println!("Open {}", login.url());
/// let code = login.callback(Duration::from_secs(300)).await?;
/// let tokens = login.exchange(code).await?;
/// MemoryStore::default().put("example", &Credential::OAuth(tokens)).await?;
/// # Ok(())
/// # }
/// ```
pub struct Login {
    client: OAuthClient,
    http: Http,
    limit: Duration,
    url: String,
    redirect: String,
    verifier: Secret,
    state: Secret,
    /// Listener for the browser; `None` if the answer can only be pasted.
    callback: Option<Callback>,
}

/// Authorisation code of a sign-in, valid for one exchange. Its state was checked by its [`Login`].
pub struct AuthorizationCode(Secret);

impl fmt::Debug for AuthorizationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthorizationCode(…)")
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Login {
    /// Starts a sign-in, and listens for the browser if the client's redirect is to this machine.
    ///
    /// # Errors
    /// [`AuthError::Client`] for an invalid description, [`AuthError::Port`] when its port is in use,
    /// [`AuthError::Random`].
    pub async fn begin(client: OAuthClient, http: Http) -> Result<Self, AuthError> {
        // Checked before a port is opened.
        client.token_url()?;
        client.authorize_url()?;
        let callback = match &client.redirect {
            Redirect::Loopback { .. } => Some(Callback::listen(&client).await?),
            Redirect::Page { .. } => None,
        };
        Self::begin_with(client, callback, http)
    }

    /// Starts a sign-in whose answer arrives at `callback`: for servers at which zk has to register
    /// [`Callback::redirect_uri`] before it gets a client id.
    ///
    /// # Errors
    /// [`AuthError::Client`] for an invalid description, [`AuthError::Random`].
    pub fn begin_with(
        client: OAuthClient,
        callback: Option<Callback>,
        http: Http,
    ) -> Result<Self, AuthError> {
        client.token_url()?;
        let mut url = client.authorize_url()?;
        let redirect = match (&callback, &client.redirect) {
            (Some(callback), _) => callback.redirect_uri(),
            (None, Redirect::Page { url }) => url.clone(),
            (None, Redirect::Loopback { .. }) => {
                return Err(client.invalid_field("redirect", "needs a listener".to_owned()));
            }
        };
        let (state, verifier) = (pkce::random()?, pkce::random()?);
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", &client.client_id)
                .append_pair("redirect_uri", &redirect)
                .append_pair("state", &state)
                .append_pair("code_challenge", &pkce::challenge(&verifier))
                .append_pair("code_challenge_method", "S256");
            if !client.scopes.is_empty() {
                query.append_pair("scope", &client.scopes.join(" "));
            }
            if let Some(resource) = &client.resource {
                query.append_pair("resource", resource);
            }
            for (name, value) in &client.authorize_params {
                query.append_pair(name, value);
            }
        }
        Ok(Self {
            url: escape_for_shells(&url),
            redirect,
            verifier: verifier.into(),
            state: state.into(),
            callback,
            client,
            http,
            limit: TOKEN_LIMIT,
        })
    }

    /// Sets the time limit of the token endpoint; 30 s by default.
    #[must_use]
    pub fn token_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Address at which the person signs in. Inside quotes it contains no character with a meaning for
    /// shells; still, open it without a shell.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether the answer can arrive through the browser. If not, it has to be [`pasted`](Self::pasted).
    #[must_use]
    pub fn listens(&self) -> bool {
        self.callback.is_some()
    }

    /// Waits up to `limit` for the browser. Requests that do not answer this sign-in get status 400.
    ///
    /// # Errors
    /// [`AuthError::Declined`] for a refusal, [`AuthError::TimedOut`].
    pub async fn callback(&self, limit: Duration) -> Result<AuthorizationCode, AuthError> {
        let answer = async {
            match &self.callback {
                Some(callback) => callback.wait(&self.expected()).await,
                None => std::future::pending().await,
            }
        };
        let answer = timeout(limit, answer).await.map_err(|_| AuthError::TimedOut { limit })?;
        self.accept_answer(answer)
    }

    /// Extracts the code from a pasted text: `code#state`, or the whole address of the last page.
    ///
    /// # Errors
    /// [`AuthError::Pasted`] when the text does not answer this sign-in, [`AuthError::Declined`].
    pub fn pasted(&self, text: &str) -> Result<AuthorizationCode, AuthError> {
        let text = text.trim();
        let query = match Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => url.query().unwrap_or_default().to_owned(),
            Ok(_) | Err(_) => match text.split_once('#') {
                Some((code, state)) => {
                    let pairs = [("code", code.trim()), ("state", state.trim())];
                    let url = Url::parse_with_params("http://paste", pairs);
                    url.ok().and_then(|url| url.query().map(str::to_owned)).unwrap_or_default()
                }
                None => text.trim_start_matches('?').to_owned(),
            },
        };
        let answer = answer_of(&query, &self.expected()).map_err(|reason| AuthError::Pasted { reason })?;
        self.accept_answer(answer)
    }

    /// Exchanges the code for tokens, which are not stored.
    ///
    /// # Errors
    /// [`AuthError::Refused`], [`AuthError::Unavailable`] or [`AuthError::Malformed`]. Each needs a new
    /// sign-in, since a code is valid once.
    pub async fn exchange(self, code: AuthorizationCode) -> Result<OAuthTokens, AuthError> {
        let endpoint = TokenEndpoint { client: &self.client, http: &self.http, limit: self.limit };
        let (code, verifier, state) = (&code.0, &self.verifier, &self.state);
        endpoint.request_tokens(&Grant::Code { code, verifier, state, redirect: &self.redirect }).await
    }

    fn expected(&self) -> Expected<'_> {
        Expected {
            state: self.state.expose_secret(),
            issuer: self.client.issuer.as_deref(),
            rule: self.client.issuer_rule,
        }
    }

    fn accept_answer(&self, answer: Answer) -> Result<AuthorizationCode, AuthError> {
        match answer {
            Answer::Code(code) => Ok(AuthorizationCode(code)),
            Answer::Declined(reason) => Err(AuthError::Declined { name: self.client.name.clone(), reason }),
        }
    }
}

/// Escapes every character of the URL that has a meaning in some shell: people paste it, and some browser
/// openers are shell scripts. A host contains none of them.
fn escape_for_shells(url: &Url) -> String {
    let mut out = url.origin().ascii_serialization();
    let rest = url.as_str().strip_prefix(&out).unwrap_or_default();
    for c in rest.to_owned().chars() {
        match c {
            '\'' | '"' | '`' | '$' | '!' | '*' | ';' | '|' | '<' | '>' | '\\' | '^' | '(' | ')' | '['
            | ']' | '{' | '}' => out.push_str(&format!("%{:02X}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out
}
