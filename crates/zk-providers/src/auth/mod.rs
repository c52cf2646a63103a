//! Credentials: keys from where people keep them, a store, and signing in with OAuth.
//!
//! | type | what it is |
//! |---|---|
//! | [`KeySource`], [`KeyRing`] | a key by literal, `env:NAME` or `!command`, and what reads it |
//! | [`CredentialStore`] | where credentials stay: a private file ([`FileStore`]) or memory ([`MemoryStore`]) |
//! | [`OAuthClient`] | an authorisation server and who zk is to it, as data |
//! | [`Login`] | one sign-in: the URL, the answer by loopback or by paste, the tokens |
//! | [`OAuthSession`] | a [`TokenSource`] that keeps the stored tokens fresh, once across all processes |
//! | [`OAuthRefresh`] | the event that tells of it |
//!
//! A host that has resolved a plain key gives it to a provider as [`Auth::Key`](crate::Auth::Key); one that
//! signed in gives [`Auth::Source`](crate::Auth::Source), which is asked before each request and once more
//! when the server answers 401.
//!
//! No secret leaves this module but in a [`Secret`](crate::Secret): not in an error, an event or a `Debug`.

mod callback;
mod client;
mod credential;
mod error;
mod events;
mod jwt;
mod key;
mod login;
mod pkce;
mod session;
mod source;
mod store;
#[cfg(test)]
mod tests;
mod token;

pub use client::{OAuthClient, Redirect, TokenBody};
pub use credential::{Credential, OAuthTokens};
pub use error::AuthError;
pub use events::OAuthRefresh;
pub use key::{KeyError, KeyRing, KeySource};
pub use login::{AuthorizationCode, Login};
pub use session::OAuthSession;
pub use source::TokenSource;
pub use store::{CredentialLock, CredentialStore, FileStore, MemoryStore, SetAside, StoreError};
