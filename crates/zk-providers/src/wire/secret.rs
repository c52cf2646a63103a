use std::fmt;
use std::sync::Arc;

use secrecy::ExposeSecret;

use crate::auth::TokenSource;

/// A key or token. Its `Debug` shows nothing of it, and its memory is wiped when it is dropped.
///
/// ```
/// let key = zk_providers::Secret::from("sk-test");
/// assert!(!format!("{key:?}").contains("sk-test"));
/// ```
pub type Secret = secrecy::SecretString;

/// How a request shows who it is from.
#[derive(Clone, Default)]
pub enum Auth {
    /// Not at all: a local server.
    #[default]
    None,
    /// The way the dialect sends API keys: `x-api-key` for Anthropic, a bearer token for the others.
    Key(Secret),
    /// `Authorization: Bearer …`, whatever the dialect.
    Bearer(Secret),
    /// A header of its own.
    Header {
        /// The header's name.
        name: String,
        /// What stands before the key, such as `Token `; often nothing.
        prefix: String,
        /// The key.
        key: Secret,
    },
    /// `Authorization: Bearer …` with the token this gives for each request, and another one when the server
    /// rejects it.
    Source(Arc<dyn TokenSource>),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Key(_) => "Key(…)",
            Self::Bearer(_) => "Bearer(…)",
            Self::Header { .. } => "Header { … }",
            Self::Source(_) => "Source(…)",
        })
    }
}

impl Auth {
    /// The key, if it is always the same.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::None | Self::Source(_) => None,
            Self::Key(key) | Self::Bearer(key) | Self::Header { key, .. } => Some(key),
        }
    }
}

/// `text` without the key, for text that somebody else wrote.
pub(crate) fn redact(text: &str, secret: Option<&Secret>) -> String {
    match secret.map(|secret| secret.expose_secret().trim()) {
        Some(key) if key.len() >= 4 => text.replace(key, "[key]"),
        Some(_) | None => text.to_owned(),
    }
}
