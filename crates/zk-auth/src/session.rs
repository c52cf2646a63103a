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

/// Longest time before its expiry at which a token is refreshed.
const MAX_MARGIN: Duration = Duration::from_secs(5 * 60);
/// Divisor of a token's lifetime that gives the margin of a short-lived token.
const MARGIN_DIVISOR: u32 = 5;

/// Stored tokens of a sign-in, refreshed when needed.
///
/// A token is refreshed five minutes before its expiry (in the last fifth of its lifetime if that is shorter
/// than 25 minutes), or when the server has rejected it. Concurrent tasks and processes make one refresh: the
/// others wait for it and use the stored result. A failed refresh changes no stored data. A started refresh
/// continues if its run is cancelled, since its response may be the only copy of the next refresh token.
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
    /// Lock by which one task of this process uses the store at a time.
    flight: Mutex<()>,
    unsaved: std::sync::Mutex<Option<Unsaved>>,
    /// Last refreshed token with its margin, since the store does not record when a token was issued.
    margin: std::sync::Mutex<Option<(Secret, Duration)>>,
}

/// New tokens that could not be stored.
#[derive(Clone)]
struct Unsaved {
    tokens: OAuthTokens,
    /// Stored access token that they replace. A different token in the store is newer than these.
    instead_of: Secret,
}

impl fmt::Debug for OAuthSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthSession").field("client", &self.inner.client).finish_non_exhaustive()
    }
}

impl OAuthSession {
    /// Session for the tokens that `store` keeps under the name of `client`.
    pub fn new(client: OAuthClient, store: Arc<dyn CredentialStore>, http: Http) -> Self {
        Self::with(client, store, http, Arc::new(SystemClock), TOKEN_LIMIT)
    }

    /// Session with another clock, and with a time limit for requests to the token endpoint.
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

    /// Stored tokens, expired or not.
    ///
    /// # Errors
    /// [`AuthError::NotSignedIn`], [`AuthError::OtherIssuer`], or the store's error.
    pub async fn stored(&self) -> Result<OAuthTokens, AuthError> {
        self.inner.stored().await
    }

    /// Valid token other than `rejected`, from the store or by a refresh in a separate task.
    async fn fresh_token(&self, rejected: Option<Secret>, cx: &Cx) -> Result<Secret, AuthError> {
        let (inner, cx) = (self.inner.clone(), cx.clone());
        let refresh = tokio::spawn(async move { inner.refresh(rejected.as_ref(), &cx).await });
        refresh.await.unwrap_or(Err(AuthError::Ending))
    }
}

#[async_trait]
impl TokenSource for OAuthSession {
    async fn token(&self, cx: &Cx) -> Result<Secret, AuthError> {
        let tokens = self.inner.stored().await?;
        if self.inner.are_usable(&tokens, None) {
            return Ok(tokens.access);
        }
        self.fresh_token(None, cx).await
    }

    async fn replace(&self, rejected: &Secret, cx: &Cx) -> Result<Option<Secret>, AuthError> {
        self.fresh_token(Some(rejected.clone()), cx).await.map(Some)
    }

    fn serves(&self, host: &str) -> bool {
        let hosts = &self.inner.client.hosts;
        hosts.is_empty() || hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

impl Inner {
    /// Whether the tokens are valid for a while and not rejected.
    fn are_usable(&self, tokens: &OAuthTokens, rejected: Option<&Secret>) -> bool {
        tokens.lasts(self.clock.now(), self.margin(tokens)) && !is_same_token(&tokens.access, rejected)
    }

    fn margin(&self, tokens: &OAuthTokens) -> Duration {
        match &*self.margin.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((token, margin)) if is_same_token(&tokens.access, Some(token)) => *margin,
            Some(_) | None => MAX_MARGIN,
        }
    }

    /// Newest tokens: the stored ones, or those whose storing failed.
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
            Some(newer) if is_same_token(&tokens.access, Some(&newer.instead_of)) => Ok(newer.tokens.clone()),
            Some(_) | None => {
                *unsaved = None;
                Ok(tokens)
            }
        }
    }

    async fn refresh(&self, rejected: Option<&Secret>, cx: &Cx) -> Result<Secret, AuthError> {
        let _flight = self.flight.lock().await;
        let _lock = self.store.lock(&self.client.name).await?;
        // The previous holder of the lock may have refreshed the token.
        let tokens = self.stored().await?;
        if self.are_usable(&tokens, rejected) {
            return Ok(tokens.access);
        }
        match self.request_refresh(&tokens).await {
            Ok(fresh) => {
                let unsaved = self.store_tokens(&tokens, &fresh).await;
                let left = fresh.expires_at.and_then(|end| end.duration_since(self.clock.now()).ok());
                if let Some(lifetime) = left {
                    let margin = MAX_MARGIN.min(lifetime / MARGIN_DIVISOR);
                    *self.margin.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some((fresh.access.clone(), margin));
                }
                let (provider, expires_in_s) = (self.client.name.clone(), left.map(|left| left.as_secs()));
                // A failing listener does not affect the token.
                let _ = cx.emit_with(|| OAuthRefresh { provider, expires_in_s, unsaved }).await;
                Ok(fresh.access)
            }
            Err(error) => {
                // Another process without the lock, or a new sign-in, may have stored newer tokens.
                if let Ok(now) = self.stored().await
                    && self.are_usable(&now, rejected)
                {
                    return Ok(now.access);
                }
                // The refresh failed, but the token is still valid.
                if tokens.lasts(self.clock.now(), Duration::ZERO) && !is_same_token(&tokens.access, rejected)
                {
                    return Ok(tokens.access);
                }
                Err(error)
            }
        }
    }

    async fn request_refresh(&self, tokens: &OAuthTokens) -> Result<OAuthTokens, AuthError> {
        let Some(refresh) = &tokens.refresh else {
            return Err(AuthError::Refused {
                name: self.client.name.clone(),
                place: self.client.issuer(),
                reason: "the token has ended, and no refresh token came with it".to_owned(),
            });
        };
        let endpoint = TokenEndpoint { client: &self.client, http: &self.http, limit: self.limit };
        endpoint.request_tokens(&Grant::Refresh { tokens, refresh }).await
    }

    /// Stores new tokens in place of `old`. If that fails, returns the reason and keeps them in memory, since
    /// the stored refresh token is used up.
    async fn store_tokens(&self, old: &OAuthTokens, fresh: &OAuthTokens) -> Option<String> {
        let stored = self.store.put(&self.client.name, &Credential::OAuth(fresh.clone())).await;
        let mut unsaved = self.unsaved.lock().unwrap_or_else(PoisonError::into_inner);
        match stored {
            Ok(_) => {
                *unsaved = None;
                None
            }
            Err(error) => {
                let instead_of = match &*unsaved {
                    // The stored token is older than both: it is still the one that the unsaved tokens replace.
                    Some(before) if is_same_token(&before.tokens.access, Some(&old.access)) => {
                        before.instead_of.clone()
                    }
                    Some(_) | None => old.access.clone(),
                };
                *unsaved = Some(Unsaved { tokens: fresh.clone(), instead_of });
                Some(error.to_string())
            }
        }
    }
}

fn is_same_token(token: &Secret, other: Option<&Secret>) -> bool {
    other.is_some_and(|other| other.expose_secret() == token.expose_secret())
}
