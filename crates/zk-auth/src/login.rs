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

/// Time limit of the token endpoint.
pub(crate) const TOKEN_LIMIT: Duration = Duration::from_secs(30);

/// One sign-in: OAuth 2.1 with an authorisation code and PKCE.
///
/// Show [`url`](Self::url) to the person. The answer comes by the browser, which [`callback`](Self::callback)
/// waits for, or is [`pasted`](Self::pasted); whichever is first is [`exchange`](Self::exchange)d for tokens.
/// A wrong answer, by either way, ends nothing: the right one may still come.
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
    /// Nothing where the answer can only be pasted.
    callback: Option<Callback>,
}

/// The code of a finished sign-in, good for one exchange. It came with the state of its own [`Login`].
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
    /// Begins a sign-in, and listens for its answer if one is to come by the browser.
    ///
    /// # Errors
    /// [`AuthError::Client`] when the description cannot be used, [`AuthError::Port`] when its port is taken,
    /// [`AuthError::Random`].
    pub async fn begin(client: OAuthClient, http: Http) -> Result<Self, AuthError> {
        // Before a port is taken.
        client.token_url()?;
        client.authorize_url()?;
        let callback = match &client.redirect {
            Redirect::Loopback { .. } => Some(Callback::listen(&client).await?),
            Redirect::Page { .. } => None,
        };
        Self::begin_with(client, callback, http)
    }

    /// Begins a sign-in whose answer `callback` waits for. A server where zk has to be registered first wants to
    /// know [`Callback::redirect_uri`] before it gives out the client id.
    ///
    /// # Errors
    /// [`AuthError::Client`] when the description cannot be used, [`AuthError::Random`].
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
                return Err(client.wrong("redirect", "needs a listener".to_owned()));
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
            url: shell_proof(&url),
            redirect,
            verifier: verifier.into(),
            state: state.into(),
            callback,
            client,
            http,
            limit: TOKEN_LIMIT,
        })
    }

    /// Sets the time limit of the token endpoint; 30 s unless set.
    #[must_use]
    pub fn token_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the address at which the person signs in. It holds no character that a shell reads as more
    /// than a letter inside quotes; open it without a shell all the same.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether the answer can come by the browser. If not, it has to be [`pasted`](Self::pasted).
    #[must_use]
    pub fn listens(&self) -> bool {
        self.callback.is_some()
    }

    /// Waits for the browser, for `limit` at most. Requests that are not the answer to this sign-in are
    /// answered 400 and change nothing.
    ///
    /// # Errors
    /// [`AuthError::Declined`] when the answer is no, [`AuthError::TimedOut`].
    pub async fn callback(&self, limit: Duration) -> Result<AuthorizationCode, AuthError> {
        let answer = async {
            match &self.callback {
                Some(callback) => callback.wait(&self.expected()).await,
                None => std::future::pending().await,
            }
        };
        let answer = timeout(limit, answer).await.map_err(|_| AuthError::TimedOut { limit })?;
        self.code(answer)
    }

    /// The code in a pasted text: `code#state`, or the whole address the browser ended at.
    ///
    /// # Errors
    /// [`AuthError::Pasted`] when it is not the answer to this sign-in, [`AuthError::Declined`].
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
        self.code(answer)
    }

    /// Turns the code into tokens. They are not stored.
    ///
    /// # Errors
    /// [`AuthError::Refused`], [`AuthError::Unavailable`] or [`AuthError::Malformed`], after which a sign-in
    /// has to begin again: a code is good once.
    pub async fn exchange(self, code: AuthorizationCode) -> Result<OAuthTokens, AuthError> {
        let endpoint = TokenEndpoint { client: &self.client, http: &self.http, limit: self.limit };
        let (code, verifier, state) = (&code.0, &self.verifier, &self.state);
        endpoint.ask(&Grant::Code { code, verifier, state, redirect: &self.redirect }).await
    }

    fn expected(&self) -> Expected<'_> {
        Expected {
            state: self.state.expose_secret(),
            issuer: self.client.issuer.as_deref(),
            rule: self.client.issuer_rule,
        }
    }

    fn code(&self, answer: Answer) -> Result<AuthorizationCode, AuthError> {
        match answer {
            Answer::Code(code) => Ok(AuthorizationCode(code)),
            Answer::Declined(reason) => Err(AuthError::Declined { name: self.client.name.clone(), reason }),
        }
    }
}

/// The URL with every character escaped that some shell might make something of: people paste it, and some
/// openers of browsers are shell scripts. A host holds none of them.
fn shell_proof(url: &Url) -> String {
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
