//! Credentials for zk: API keys from various sources, a credential store, and sign-in with OAuth 2.1. It
//! knows no provider: model providers, MCP servers and other crates share these parts.
//!
//! | type | purpose |
//! |---|---|
//! | [`KeySource`], [`KeyRing`] | API keys by literal, `env:NAME` or `!command`, and their resolution |
//! | [`CredentialStore`] | storage of credentials: a private file ([`FileStore`]) or memory ([`MemoryStore`]) |
//! | [`OAuthClient`] | description of an authorisation server and of zk's registration there |
//! | [`Login`], [`Callback`] | one sign-in: URL, answer by loopback redirect or pasted text, tokens |
//! | [`TokenSource`], [`OAuthSession`] | token for each request; refreshed once for all processes |
//! | [`OAuthRefresh`] | event of a token refresh |
//! | [`Http`] | HTTP clients, built on first use and shared |
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
//! Tokens are stored under the client's name with their issuer, and are only refreshed there.
//!
//! # What this crate must never know
//!
//! Providers, models, settings and the environment. Secrets leave this crate only as [`Secret`], never in an
//! error, event or `Debug` output.

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

/// API key or token. Its `Debug` output is redacted, and its memory is wiped on drop.
///
/// ```
/// let key = zk_auth::Secret::from("sk-test");
/// assert!(!format!("{key:?}").contains("sk-test"));
/// ```
pub type Secret = secrecy::SecretString;
