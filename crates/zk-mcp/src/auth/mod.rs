//! Signing in to servers that are reached by HTTP: OAuth 2.1 on `zk-auth`.

pub(crate) mod challenge;
pub(crate) mod credentials;
mod discovery;
mod registration;
mod sign_in;

use zk_auth::AuthError;

pub(crate) use credentials::ServerAuth;
pub(crate) use sign_in::sign_in;
pub use sign_in::{SignInOptions, SignInPage};

/// Failure of a sign-in to a server. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// There is no such server, it is no server for this, or it wants no sign-in.
    #[error("{0}")]
    NotWanted(String),
    /// Metadata of the server or its authorisation server that is not to be trusted with a sign-in.
    #[error("{0}")]
    Server(String),
    /// A document or an endpoint could not be used.
    #[error("{place}: {why}")]
    Unreachable {
        /// The address.
        place: String,
        /// Cause of the failure.
        why: String,
    },
    /// The sign-in itself failed.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

impl SignInError {
    fn server(why: impl Into<String>) -> Self {
        Self::Server(why.into())
    }
}
