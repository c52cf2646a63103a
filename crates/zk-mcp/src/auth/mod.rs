//! Sign-in to servers over HTTP: OAuth 2.1 with `zk-auth`.

pub(crate) mod challenge;
pub(crate) mod credentials;
mod discovery;
mod registration;
mod sign_in;

use zk_auth::AuthError;

pub(crate) use credentials::ServerAuth;
pub(crate) use sign_in::sign_in;
pub use sign_in::{SignInOptions, SignInPage};

/// Failure of a sign-in to a server. No variant contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The server does not exist, or has no sign-in or does not need one.
    #[error("{0}")]
    NotWanted(String),
    /// The metadata of the server or its authorisation server cannot be trusted.
    #[error("{0}")]
    Server(String),
    /// A document or endpoint could not be used.
    #[error("{place}: {why}")]
    Unreachable {
        /// Address of the document or endpoint.
        place: String,
        /// Cause of the failure.
        why: String,
    },
    /// The OAuth exchange failed.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

impl SignInError {
    fn server_error(why: impl Into<String>) -> Self {
        Self::Server(why.into())
    }
}
