use serde::Serialize;
use zk_core::kernel::{Event, Notify};

/// An access token was refreshed. The event contains no token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OAuthRefresh {
    /// Name under which the credential is stored.
    pub provider: String,
    /// Lifetime of the new token in seconds, if known.
    pub expires_in_s: Option<u64>,
    /// Reason why the new tokens could not be stored. They work until this process ends; then the person has
    /// to sign in again, unless a later attempt to store them succeeds.
    pub unsaved: Option<String>,
}

impl Event for OAuthRefresh {
    const NAME: &'static str = "oauth:refresh";
    // The new tokens exist even if the run that needed them was cancelled.
    const CANCELLABLE: bool = false;
    type Reply = ();
    type Mode = Notify;
}
