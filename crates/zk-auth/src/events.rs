use serde::Serialize;
use zk_core::kernel::{Event, Notify};

/// An access token was refreshed. It holds no token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OAuthRefresh {
    /// The name the credential is stored under.
    pub provider: String,
    /// Lifetime of the new token, in seconds, if the server said.
    pub expires_in_s: Option<u64>,
    /// Reason why the new tokens could not be stored. They work until this process ends; after it the person
    /// has to sign in again, unless a later attempt to store them succeeds.
    pub unsaved: Option<String>,
}

impl Event for OAuthRefresh {
    const NAME: &'static str = "oauth:refresh";
    // The tokens are there whether or not the run that asked for them goes on.
    const CANCELLABLE: bool = false;
    type Reply = ();
    type Mode = Notify;
}
