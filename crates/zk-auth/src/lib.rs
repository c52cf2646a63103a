//! Credentials for zk: keys from where people keep them, a store, and signing in with OAuth 2.1. It knows no
//! provider: model providers, MCP servers and other crates that need a token use the same pieces.
//!
//! | type | what it is |
//! |---|---|
//! | [`KeySource`], [`KeyRing`] | a key by literal, `env:NAME` or `!command`, and what reads it |
//! | [`CredentialStore`] | where credentials stay: a private file ([`FileStore`]) or memory ([`MemoryStore`]) |
//! | [`OAuthClient`] | an authorisation server and who zk is to it, as data |
//! | [`Login`], [`Callback`] | one sign-in: the URL, the answer by loopback or by paste, the tokens |
//! | [`TokenSource`], [`OAuthSession`] | gives a token for each request; from a sign-in, refreshed once across all processes |
//! | [`OAuthRefresh`] | the event of a refresh |
//! | [`Http`] | the HTTP clients, made late and shared |
//!
//! # A sign-in
//!
//! ```no_run
//! # async fn sign_in(cx: &zk_core::kernel::Cx) -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//! use zk_auth::{Credential, CredentialStore, FileStore, Http, Login, OAuthClient, OAuthSession, TokenSource};
//!
//! let client = OAuthClient {
//!     resource: Some("https://mcp.example.com".into()),
//!     ..OAuthClient::new(
//!         "mcp.example.com",
//!         "zk",
//!         "https://auth.example.com/authorize",
//!         "https://auth.example.com/token",
//!     )
//! };
//! let store = Arc::new(FileStore::new("/home/me/.local/share/zk/credentials.json"));
//! let login = Login::begin(client.clone(), Http::new()).await?;
//! println!("Open {}", login.url());
//! let code = login.callback(Duration::from_secs(300)).await?;
//! store.put(&client.name, &Credential::OAuth(login.exchange(code).await?)).await?;
//!
//! // From now on, in any process:
//! let session = OAuthSession::new(client, store, Http::new());
//! let token = session.token(cx).await?;
//! # let _ = token;
//! # Ok(())
//! # }
//! ```
//!
//! Tokens are stored under the client's name together with their issuer, and are refreshed at no other issuer.
//!
//! # What this crate must never know
//!
//! Providers, models, settings and the environment. No secret leaves it but in a [`Secret`]: not in an error, an
//! event or a `Debug`.

mod callback;
mod client;
mod credential;
mod error;
mod events;
pub mod http;
mod jwt;
mod key;
mod login;
mod pkce;
mod reach;
mod session;
mod source;
mod store;
#[cfg(test)]
mod tests;
mod token;

pub use callback::Callback;
pub use client::{ClientAuth, ClientSecret, IssuerRule, OAuthClient, Redirect, TokenBody};
pub use credential::{Credential, OAuthTokens};
pub use error::AuthError;
pub use events::OAuthRefresh;
pub use http::Http;
pub use key::{KeyError, KeyRing, KeySource};
pub use login::{AuthorizationCode, Login};
pub use session::OAuthSession;
pub use source::TokenSource;
pub use store::{CredentialLock, CredentialStore, FileStore, MemoryStore, SetAside, StoreError};

/// A key or token. Its `Debug` shows nothing of it, and its memory is wiped when it is dropped.
///
/// ```
/// let key = zk_auth::Secret::from("sk-test");
/// assert!(!format!("{key:?}").contains("sk-test"));
/// ```
pub type Secret = secrecy::SecretString;
