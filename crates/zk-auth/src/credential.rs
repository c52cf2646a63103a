use std::fmt;
use std::time::{Duration, SystemTime};

use crate::Secret;

/// Credential of a provider, as stored.
#[derive(Clone, Debug)]
pub enum Credential {
    /// API key that a person entered.
    ApiKey(Secret),
    /// The tokens of a sign-in.
    OAuth(OAuthTokens),
}

/// Tokens of an authorisation server.
#[derive(Clone)]
pub struct OAuthTokens {
    /// Access token for requests.
    pub access: Secret,
    /// Refresh token; without one, each expiry needs a new sign-in.
    pub refresh: Option<Secret>,
    /// Expiry of the access token, if known.
    pub expires_at: Option<SystemTime>,
    /// Id of the account, if known; not a secret.
    pub account: Option<String>,
    /// Issuer of the tokens, the only server where they are refreshed.
    pub issuer: String,
}

impl OAuthTokens {
    /// Whether the access token is valid at `now` and for `margin` longer. A token without expiry is.
    #[must_use]
    pub fn lasts(&self, now: SystemTime, margin: Duration) -> bool {
        self.expires_at.is_none_or(|end| end.duration_since(now).is_ok_and(|left| left > margin))
    }
}

impl fmt::Debug for OAuthTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthTokens")
            .field("expires_at", &self.expires_at)
            .field("account", &self.account)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}
