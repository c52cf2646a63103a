use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use zk_auth::{
    Credential, CredentialStore, Http, KeyError, KeyRing, KeySource, OAuthClient, OAuthSession, Secret,
    StoreError,
};
use zk_core::service::Redactor;

use crate::wire::secret::Auth;

/// Stored credentials by provider name.
pub type StoredCredentials = BTreeMap<String, Credential>;

/// Source of the credential for requests. A text may be the key itself, `env:NAME` or `!command`.
#[derive(Clone)]
pub enum CredentialSource {
    /// A text whose key is sent in the dialect's usual way.
    Key(Secret),
    /// A text whose key is sent as `Authorization: Bearer`.
    Bearer(Secret),
    /// The stored API key.
    StoredKey,
    /// The stored tokens of a sign-in.
    SignIn {
        /// Account of the sign-in, if the tokens name one.
        account: Option<String>,
    },
}

impl CredentialSource {
    /// Returns the source of the key that a text stands for.
    #[must_use]
    pub fn key_source(&self) -> Option<KeySource> {
        match self {
            Self::Key(text) | Self::Bearer(text) => Some(KeySource::parse(text.expose_secret())),
            Self::StoredKey | Self::SignIn { .. } => None,
        }
    }
}

impl fmt::Debug for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key(…)",
            Self::Bearer(_) => "Bearer(…)",
            Self::StoredKey => "StoredKey",
            Self::SignIn { .. } => "SignIn(…)",
        })
    }
}

/// Reason for which a request has no credential. No variant contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// There is no credential store.
    #[error("there is no place for credentials: name a file for them")]
    NoStore,
    /// The credential store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The text of a key cannot be resolved.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The stored credential is not a key any more.
    #[error("the stored key of {provider} was replaced just now: start again")]
    Replaced {
        /// Name of the provider.
        provider: String,
    },
    /// The authorisation server that refreshes the tokens is not known.
    #[error(
        "the stored sign-in to {provider} cannot be used without its authorisation server: sign in again"
    )]
    NoClient {
        /// Name of the provider.
        provider: String,
    },
}

/// Reads everything in `store`. An unreadable entry is skipped and reported in the errors.
pub async fn stored_credentials(store: &dyn CredentialStore) -> (StoredCredentials, Vec<StoreError>) {
    let (mut stored, mut errors) = (StoredCredentials::new(), Vec::new());
    let names = store.names().await.unwrap_or_else(|error| {
        errors.push(error);
        Vec::new()
    });
    for name in names {
        match store.get(&name).await {
            Ok(credential) => stored.extend(credential.map(|credential| (name, credential))),
            Err(error) => errors.push(error),
        }
    }
    (stored, errors)
}

/// Services that resolve a [`CredentialSource`].
pub struct CredentialAccess<'a> {
    /// Store of keys and tokens.
    pub store: Option<Arc<dyn CredentialStore>>,
    /// Authorisation server of a sign-in.
    pub client: Option<OAuthClient>,
    /// Resolver of keys given as `env:NAME` or `!command`.
    pub keys: KeyRing,
    /// HTTP clients for the authorisation server.
    pub http: &'a Http,
    /// Redactor that learns every resolved key.
    pub redactor: &'a Redactor,
}

impl CredentialAccess<'_> {
    /// Resolves the authentication of requests to `provider`.
    ///
    /// # Errors
    /// [`CredentialError`] when the source cannot be resolved.
    pub async fn auth(
        self,
        provider: &str,
        source: Option<&CredentialSource>,
    ) -> Result<Auth, CredentialError> {
        Ok(match source {
            None => Auth::None,
            Some(CredentialSource::Key(text)) => Auth::Key(self.read_key(text).await?),
            Some(CredentialSource::Bearer(text)) => Auth::Bearer(self.read_key(text).await?),
            Some(CredentialSource::StoredKey) => {
                let store = self.store.ok_or(CredentialError::NoStore)?;
                match store.get(provider).await? {
                    Some(Credential::ApiKey(key)) => {
                        self.redactor.learn(key.expose_secret());
                        Auth::Key(key)
                    }
                    Some(Credential::OAuth(_)) | None => {
                        return Err(CredentialError::Replaced { provider: provider.to_owned() });
                    }
                }
            }
            Some(CredentialSource::SignIn { .. }) => {
                let no_client = || CredentialError::NoClient { provider: provider.to_owned() };
                let client = self.client.ok_or_else(no_client)?;
                let store = self.store.ok_or(CredentialError::NoStore)?;
                Auth::Source(Arc::new(OAuthSession::new(client, store, self.http.clone())))
            }
        })
    }

    async fn read_key(&self, text: &Secret) -> Result<Secret, CredentialError> {
        let source = KeySource::parse(text.expose_secret());
        let key = self.keys.key(&source, &CancellationToken::new()).await?;
        self.redactor.learn(key.expose_secret());
        Ok(key)
    }
}

impl fmt::Debug for CredentialAccess<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialAccess").field("has_store", &self.store.is_some()).finish_non_exhaustive()
    }
}
