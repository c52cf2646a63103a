use std::fmt;
use std::time::{Duration, SystemTime};

use crate::Secret;

/// Credential that a store keeps under the name of a provider.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A key that somebody typed in.
    ApiKey(Secret),
    /// The tokens of a sign-in.
    OAuth(OAuthTokens),
}

/// Tokens that an authorisation server gave out.
#[derive(Clone)]
pub struct OAuthTokens {
    /// The token that requests show.
    pub access: Secret,
    /// The token that gets the next pair; a server that gives none wants a new sign-in each time.
    pub refresh: Option<Secret>,
    /// Time at which the access token stops working, if the server said.
    pub expires_at: Option<SystemTime>,
    /// The account it is for, if the server said: an id, no secret.
    pub account: Option<String>,
    /// Issuer of the tokens: they are never sent anywhere else to be refreshed.
    pub issuer: String,
}

impl OAuthTokens {
    /// Whether the access token still works at `now` and for `margin` after it. One without an end does.
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
