use std::time::Duration;

use zk_core::model::ErrorKind;

use super::StoreError;

/// Reason why there is no token. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Nobody signed in, or somebody signed out since.
    #[error("not signed in to {name}: sign in first")]
    NotSignedIn {
        /// The credential's name.
        name: String,
    },
    /// The authorisation server wants a new sign-in.
    #[error("{place} no longer accepts the sign-in to {name} ({reason}): sign in again")]
    Refused {
        /// The credential's name.
        name: String,
        /// The authorisation server.
        place: String,
        /// Reason that the server gave.
        reason: String,
    },
    /// The stored tokens come from another server than the one that would refresh them.
    #[error(
        "the stored tokens of {name} come from {stored}, but {name} is now set up for {expected}, which does \
         not get to see them: sign in again"
    )]
    OtherIssuer {
        /// The credential's name.
        name: String,
        /// Issuer of the stored tokens.
        stored: String,
        /// Issuer that is configured.
        expected: String,
    },
    /// The authorisation server was not reached or is failing: the same may work later.
    #[error("{place} did not give a token: {reason}. The stored sign-in is kept; try again")]
    Unavailable {
        /// The authorisation server.
        place: String,
        /// Cause, in words.
        reason: String,
    },
    /// The authorisation server answered something else than tokens.
    #[error("{place} answered something that is not a token: {reason}. Is its address right?")]
    Malformed {
        /// The authorisation server.
        place: String,
        /// Fault of the answer, in words.
        reason: String,
    },
    /// The person, or the authorisation server, said no.
    #[error("the sign-in to {name} was declined: {reason}")]
    Declined {
        /// The credential's name.
        name: String,
        /// Reason that the server gave.
        reason: String,
    },
    /// The description of the client cannot be used.
    #[error("the OAuth settings of {name} cannot be used: `{field}` {reason}")]
    Client {
        /// The credential's name.
        name: String,
        /// The field.
        field: &'static str,
        /// Fault of the field, in words.
        reason: String,
    },
    /// The port the browser is to come back to cannot be listened on.
    #[error(
        "cannot listen on port {port} of this machine, where the browser is to come back to ({source}): is \
         another sign-in waiting? End it and try again"
    )]
    Port {
        /// The port; 0 for any free one.
        port: u16,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// The pasted text is not the answer to this sign-in.
    #[error(
        "what was pasted {reason}: paste the whole text that the page shows, or the whole address that the \
         browser ended at"
    )]
    Pasted {
        /// Fault of the text, in words.
        reason: &'static str,
    },
    /// Nobody finished the sign-in.
    #[error("nobody signed in within {} s: start again", limit.as_secs())]
    TimedOut {
        /// Time that was waited.
        limit: Duration,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers, without which no sign-in is safe")]
    Random,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The task that refreshed ended without an answer: the program is ending.
    #[error("the refresh was cut off because the program is ending")]
    Ending,
}

impl AuthError {
    /// Whether signing in, once more if need be, is what helps.
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

    /// The class a request fails with that got no token.
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
