use std::time::Duration;

use zk_core::model::ErrorKind;

use super::StoreError;

/// Reason why there is no token. Error values contain no secrets.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The person has not signed in, or has signed out.
    #[error("not signed in to {name}: sign in first")]
    NotSignedIn {
        /// Name of the credential.
        name: String,
    },
    /// The authorisation server requires a new sign-in.
    #[error("{place} no longer accepts the sign-in to {name} ({reason}): sign in again")]
    Refused {
        /// Name of the credential.
        name: String,
        /// Issuer or origin of the authorisation server.
        place: String,
        /// Reason by the server.
        reason: String,
    },
    /// The stored tokens are from another server than the configured one.
    #[error(
        "the stored tokens of {name} come from {stored}, but {name} is now set up for {expected}, which does \
         not get to see them: sign in again"
    )]
    OtherIssuer {
        /// Name of the credential.
        name: String,
        /// Issuer of the stored tokens.
        stored: String,
        /// Configured issuer.
        expected: String,
    },
    /// The authorisation server is unreachable or failing; a later attempt may succeed.
    #[error("{place} did not give a token: {reason}. The stored sign-in is kept; try again")]
    Unavailable {
        /// Issuer or origin of the authorisation server.
        place: String,
        /// Cause, in words.
        reason: String,
    },
    /// The authorisation server's response contains no valid tokens.
    #[error("{place} answered something that is not a token: {reason}. Is its address right?")]
    Malformed {
        /// Issuer or origin of the authorisation server.
        place: String,
        /// Error in the response, in words.
        reason: String,
    },
    /// The person or the authorisation server declined the sign-in.
    #[error("the sign-in to {name} was declined: {reason}")]
    Declined {
        /// Name of the credential.
        name: String,
        /// Reason by the server.
        reason: String,
    },
    /// The client's description is invalid.
    #[error("the OAuth settings of {name} cannot be used: `{field}` {reason}")]
    Client {
        /// Name of the credential.
        name: String,
        /// Name of the invalid field.
        field: &'static str,
        /// Error in the field, in words.
        reason: String,
    },
    /// The port for the browser's redirect cannot be used.
    #[error(
        "cannot listen on port {port} of this machine, where the browser is to come back to ({source}): is \
         another sign-in waiting? End it and try again"
    )]
    Port {
        /// Port number; 0 for any free port.
        port: u16,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The pasted text does not answer this sign-in.
    #[error(
        "what was pasted {reason}: paste the whole text that the page shows, or the whole address that the \
         browser ended at"
    )]
    Pasted {
        /// Error in the text, in words.
        reason: &'static str,
    },
    /// The sign-in was not completed in time.
    #[error("nobody signed in within {} s: start again", limit.as_secs())]
    TimedOut {
        /// Time limit.
        limit: Duration,
    },
    /// The system's random number generator failed.
    #[error("the system gives no random numbers, without which no sign-in is safe")]
    Random,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The refreshing task was dropped because the program is ending.
    #[error("the refresh was cut off because the program is ending")]
    Ending,
}

impl AuthError {
    /// Whether a new sign-in can fix the error.
    #[must_use]
    pub fn wants_sign_in(&self) -> bool {
        match self {
            Self::NotSignedIn { .. }
            | Self::Refused { .. }
            | Self::OtherIssuer { .. }
            | Self::Store(StoreError::Entry { .. }) => true,
            Self::Unavailable { .. }
            | Self::Malformed { .. }
            | Self::Declined { .. }
            | Self::Client { .. }
            | Self::Port { .. }
            | Self::Pasted { .. }
            | Self::TimedOut { .. }
            | Self::Random
            | Self::Store(_)
            | Self::Ending => false,
        }
    }

    /// Error kind of a request that got no token.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable { .. } => ErrorKind::Transport,
            Self::Ending => ErrorKind::Aborted,
            Self::NotSignedIn { .. }
            | Self::Refused { .. }
            | Self::OtherIssuer { .. }
            | Self::Malformed { .. }
            | Self::Declined { .. }
            | Self::Client { .. }
            | Self::Port { .. }
            | Self::Pasted { .. }
            | Self::TimedOut { .. }
            | Self::Random
            | Self::Store(_) => ErrorKind::Auth,
        }
    }
}
