use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use secrecy::ExposeSecret;
use tokio::sync::Mutex;
use zk_core::kernel::Cx;
use zk_core::service::{Clock, SystemClock};

use super::client::OAuthClient;
use super::login::TOKEN_LIMIT;
use super::source::TokenSource;
use super::store::CredentialStore;
use super::token::{Grant, TokenEndpoint};
use super::{AuthError, Credential, OAuthRefresh, OAuthTokens};
use crate::Secret;
use crate::http::Http;

/// Longest time before its end at which a token is refreshed.
const MAX_MARGIN: Duration = Duration::from_secs(5 * 60);
/// Share of a token's lifetime, as a divisor, that is the margin of a token that lives shortly.
const MARGIN_DIVISOR: u32 = 5;

/// The stored tokens of a sign-in, kept fresh.
///
/// A token is refreshed five minutes before it ends (one that lives less than 25 minutes: in the last fifth of its
/// lifetime), or when the server has rejected it. However many tasks
/// and processes need that at once, one refresh is made: the others wait for it and take what it stored. A
/// refresh that fails changes nothing that is stored. One that has begun goes on when the run that asked for
/// it is dropped, for its answer may be the only copy of the next refresh token.
///
/// ```
/// use std::sync::Arc;
/// use zk_auth::{Http, MemoryStore, OAuthClient, OAuthSession, TokenSource};
///
/// let client = OAuthClient::new("example", "zk", "https://example.com/authorize", "https://example.com/token");
/// let session = OAuthSession::new(client, Arc::new(MemoryStore::default()), Http::new());
/// let source: Arc<dyn TokenSource> = Arc::new(session);
/// # let _ = source;
/// ```
#[derive(Clone)]
pub struct OAuthSession {
    inner: Arc<Inner>,
}

struct Inner {
    client: OAuthClient,
    store: Arc<dyn CredentialStore>,
    http: Http,
    clock: Arc<dyn Clock>,
    limit: Duration,
    /// Keeps the tasks of this process from asking the store all at once.
    flight: Mutex<()>,
    unsaved: std::sync::Mutex<Option<Unsaved>>,
    /// The token that was refreshed last, with its own margin: what is stored does not say when a token began.
    margin: std::sync::Mutex<Option<(Secret, Duration)>>,
}

/// Fresh tokens that the store did not take.
#[derive(Clone)]
struct Unsaved {
    tokens: OAuthTokens,
    /// The stored access token they take the place of. If the store has another one by now, that is newer.
    instead_of: Secret,
}

impl fmt::Debug for OAuthSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthSession").field("client", &self.inner.client).finish_non_exhaustive()
    }
}

impl OAuthSession {
    /// The tokens that `store` keeps under the name of `client`.
    pub fn new(client: OAuthClient, store: Arc<dyn CredentialStore>, http: Http) -> Self {
        Self::with(client, store, http, Arc::new(SystemClock), TOKEN_LIMIT)
    }

    /// Creates a session with another clock, and with `limit` for one request to the token endpoint.
    pub fn with(
        client: OAuthClient,
        store: Arc<dyn CredentialStore>,
        http: Http,
        clock: Arc<dyn Clock>,
        limit: Duration,
    ) -> Self {
        let (flight, unsaved, margin) =
            (Mutex::default(), std::sync::Mutex::default(), std::sync::Mutex::default());
        Self { inner: Arc::new(Inner { client, store, http, clock, limit, flight, unsaved, margin }) }
    }

    /// The tokens as they are stored, fresh or not.
    ///
    /// # Errors
    /// [`AuthError::NotSignedIn`], [`AuthError::OtherIssuer`], or what the store says.
    pub async fn stored(&self) -> Result<OAuthTokens, AuthError> {
        self.inner.stored().await
    }

    /// A token that is good and not `rejected`, from the store or by a refresh, in a task of its own.
    async fn fresh(&self, rejected: Option<Secret>, cx: &Cx) -> Result<Secret, AuthError> {
        let (inner, cx) = (self.inner.clone(), cx.clone());
        let refresh = tokio::spawn(async move { inner.refresh(rejected.as_ref(), &cx).await });
        refresh.await.unwrap_or(Err(AuthError::Ending))
    }
}

#[async_trait]
impl TokenSource for OAuthSession {
    async fn token(&self, cx: &Cx) -> Result<Secret, AuthError> {
        let tokens = self.inner.stored().await?;
        if self.inner.is_good(&tokens, None) {
            return Ok(tokens.access);
        }
        self.fresh(None, cx).await
    }

    async fn replace(&self, rejected: &Secret, cx: &Cx) -> Result<Option<Secret>, AuthError> {
        self.fresh(Some(rejected.clone()), cx).await.map(Some)
    }

    fn serves(&self, host: &str) -> bool {
        let hosts = &self.inner.client.hosts;
        hosts.is_empty() || hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

impl Inner {
    /// Whether tokens can be used for a while.
    fn is_good(&self, tokens: &OAuthTokens, rejected: Option<&Secret>) -> bool {
        tokens.lasts(self.clock.now(), self.margin(tokens)) && !is(&tokens.access, rejected)
    }

    fn margin(&self, tokens: &OAuthTokens) -> Duration {
        match &*self.margin.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((token, margin)) if is(&tokens.access, Some(token)) => *margin,
            Some(_) | None => MAX_MARGIN,
        }
    }

    /// Returns the tokens that the store has now, or that it should have.
    async fn stored(&self) -> Result<OAuthTokens, AuthError> {
        let name = || self.client.name.clone();
        let tokens = match self.store.get(&self.client.name).await? {
            Some(Credential::OAuth(tokens)) => tokens,
            Some(Credential::ApiKey(_)) | None => return Err(AuthError::NotSignedIn { name: name() }),
        };
        let expected = self.client.issuer();
        if tokens.issuer != expected {
            return Err(AuthError::OtherIssuer { name: name(), stored: tokens.issuer, expected });
        }
        let mut unsaved = self.unsaved.lock().unwrap_or_else(PoisonError::into_inner);
        match &*unsaved {
            Some(newer) if is(&tokens.access, Some(&newer.instead_of)) => Ok(newer.tokens.clone()),
            Some(_) | None => {
                *unsaved = None;
                Ok(tokens)
            }
        }
    }

    async fn refresh(&self, rejected: Option<&Secret>, cx: &Cx) -> Result<Secret, AuthError> {
        let _flight = self.flight.lock().await;
        let _lock = self.store.lock(&self.client.name).await?;
        // Whoever held the lock before may have done the work.
        let tokens = self.stored().await?;
        if self.is_good(&tokens, rejected) {
            return Ok(tokens.access);
        }
        match self.ask(&tokens).await {
            Ok(fresh) => {
                let unsaved = self.keep(&tokens, &fresh).await;
                let left = fresh.expires_at.and_then(|end| end.duration_since(self.clock.now()).ok());
                if let Some(lifetime) = left {
                    let margin = MAX_MARGIN.min(lifetime / MARGIN_DIVISOR);
                    *self.margin.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some((fresh.access.clone(), margin));
                }
                let (provider, expires_in_s) = (self.client.name.clone(), left.map(|left| left.as_secs()));
                // A listener that fails does not make the token worse.
                let _ = cx.emit_with(|| OAuthRefresh { provider, expires_in_s, unsaved }).await;
                Ok(fresh.access)
            }
            Err(error) => {
                // A process that knows no locks, or a sign-in meanwhile, may have stored better ones.
                if let Ok(now) = self.stored().await
                    && self.is_good(&now, rejected)
                {
                    return Ok(now.access);
                }
                // The last minutes of a token are as good as the first.
                if tokens.lasts(self.clock.now(), Duration::ZERO) && !is(&tokens.access, rejected) {
                    return Ok(tokens.access);
                }
                Err(error)
            }
        }
    }

    async fn ask(&self, tokens: &OAuthTokens) -> Result<OAuthTokens, AuthError> {
        let Some(refresh) = &tokens.refresh else {
            return Err(AuthError::Refused {
                name: self.client.name.clone(),
                place: self.client.issuer(),
                reason: "the token has ended, and no refresh token came with it".to_owned(),
            });
        };
        let endpoint = TokenEndpoint { client: &self.client, http: &self.http, limit: self.limit };
        endpoint.ask(&Grant::Refresh { tokens, refresh }).await
    }

    /// Stores fresh tokens in place of `old`, and says why not if it fails: then they are kept here, for the
    /// refresh token that is stored has been used up.
    async fn keep(&self, old: &OAuthTokens, fresh: &OAuthTokens) -> Option<String> {
        let stored = self.store.put(&self.client.name, &Credential::OAuth(fresh.clone())).await;
        let mut unsaved = self.unsaved.lock().unwrap_or_else(PoisonError::into_inner);
        match stored {
            Ok(_) => {
                *unsaved = None;
                None
            }
            Err(error) => {
                let instead_of = match &*unsaved {
                    // The stored token is older still.
                    Some(before) if is(&before.tokens.access, Some(&old.access)) => before.instead_of.clone(),
                    Some(_) | None => old.access.clone(),
                };
                *unsaved = Some(Unsaved { tokens: fresh.clone(), instead_of });
                Some(error.to_string())
            }
        }
    }
}

fn is(token: &Secret, other: Option<&Secret>) -> bool {
    other.is_some_and(|other| other.expose_secret() == token.expose_secret())
}
