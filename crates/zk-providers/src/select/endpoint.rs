use secrecy::ExposeSecret;
use zk_auth::{Credential, Secret};

use super::credentials::{CredentialSource, StoredCredentials};
use super::error::SelectError;
use super::known::{KnownProviders, NamedProvider, SetValue, ValueRank};
use super::local::{LocalServer, LocalServerState, probe_local_server};
use crate::catalogue::vendors::{Access, Vendor, Vendors};

/// A requested name with its origin.
#[derive(Clone, Debug)]
pub struct RequestedName {
    /// Name as given.
    pub name: String,
    /// Origin as text: a file, a flag, a variable.
    pub origin: String,
}

/// Values for the selected provider, whichever it is; only those of [`ValueRank::Managed`] override them.
#[derive(Clone, Debug, Default)]
pub struct GivenValues {
    /// Base URL of the API.
    pub base_url: Option<String>,
    /// Key: the text itself, `env:NAME` or `!command`.
    pub api_key: Option<Secret>,
}

/// Inputs for selecting the provider and the credential.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use zk_providers::select::{GivenValues, Selection, SelectionReason};
///
/// let given = GivenValues { api_key: Some("sk-ant-test".into()), ..GivenValues::default() };
/// let endpoint = Selection { given, ..Selection::default() }.endpoint().await?;
/// assert_eq!(endpoint.provider.name, "anthropic");
/// assert_eq!(endpoint.reason, SelectionReason::GivenKey);
/// # Ok::<(), zk_providers::select::SelectError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Known providers with their settings.
    pub known: KnownProviders,
    /// Stored credentials.
    pub stored: StoredCredentials,
    /// Values for this run.
    pub given: GivenValues,
    /// Requested provider.
    pub provider: Option<RequestedName>,
    /// Requested model.
    pub model: Option<RequestedName>,
    /// Whether to keep the requested provider even if the requested model belongs to another.
    pub keeps_provider: bool,
}

/// The selected provider, with address, credential and the reason for the selection.
#[derive(Clone, Debug)]
pub struct SelectedEndpoint {
    /// The selected provider.
    pub provider: NamedProvider,
    /// Base URL of its API.
    pub base_url: String,
    /// Source of the credential, if requests need one.
    pub credential: Option<CredentialSource>,
    /// Reason for selecting this provider.
    pub reason: SelectionReason,
}

impl SelectedEndpoint {
    /// Whether the base URL is the vendor's own, so that the vendor's models in the table apply.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        self.provider.vendor.base_url == Some(&self.base_url)
    }
}

/// Reason for selecting a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectionReason {
    /// The provider was named explicitly.
    Named {
        /// Origin of the name.
        origin: String,
    },
    /// A credential or address of the provider is set.
    Set {
        /// Name of the setting: `api_key`, `auth_token` or `base_url`.
        setting: &'static str,
        /// Origin of the setting.
        origin: String,
    },
    /// A credential of the provider is stored.
    Stored,
    /// A base URL was given for this run, without naming a provider.
    GivenAddress,
    /// The key given for this run has this provider's form.
    GivenKey,
    /// The requested model belongs to the provider.
    Model {
        /// Name of the model.
        model: String,
        /// Origin of that name.
        origin: String,
    },
    /// Nothing is configured, and this server runs on the local machine.
    LocalServer {
        /// Port of the server.
        port: u16,
    },
}

/// Origin of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialOrigin {
    /// A value given for this run.
    Given,
    /// A setting, with its place.
    Set(String),
    /// The credential store, filled by a sign-in.
    Stored,
}

impl Selection {
    /// Selects the endpoint by requested names, settings, credentials, or a running local server.
    ///
    /// # Errors
    /// [`SelectError`] when none applies, or the selected provider lacks an address or a credential.
    pub async fn endpoint(&self) -> Result<SelectedEndpoint, SelectError> {
        match self.configured_for_model()? {
            Some(endpoint) => Ok(endpoint),
            None => first_local_server(self.known.map.vendors(), probe_local_server).await,
        }
    }

    /// Returns the endpoint of the provider called `name`.
    ///
    /// # Errors
    /// The errors of [`KnownProviders::find`], and a missing address or credential.
    pub fn endpoint_of(&self, name: &str, reason: SelectionReason) -> Result<SelectedEndpoint, SelectError> {
        self.resolve_endpoint(self.known.find(name)?, reason)
    }

    /// Returns the configured endpoint, regardless of the requested model; `None` if none is configured.
    ///
    /// # Errors
    /// The errors of [`Selection::endpoint_of`].
    pub fn configured(&self) -> Result<Option<SelectedEndpoint>, SelectError> {
        if let Some(RequestedName { name, origin }) = &self.provider {
            return self.endpoint_of(name, SelectionReason::Named { origin: origin.clone() }).map(Some);
        }
        let found =
            self.with_setting(false).or_else(|| self.with_credential()).or_else(|| self.with_setting(true));
        if let Some((name, reason)) = found {
            return self.endpoint_of(&name, reason).map(Some);
        }
        if self.given.base_url.is_some() {
            return self.endpoint_of(Vendor::COMPATIBLE, SelectionReason::GivenAddress).map(Some);
        }
        if let Some(key) = &self.given.api_key {
            return self
                .endpoint_of(Vendor::of_key(key.expose_secret()), SelectionReason::GivenKey)
                .map(Some);
        }
        Ok(None)
    }

    /// Returns the source of a provider's credential with its origin: this run, the settings, the store or
    /// the environment, in this order.
    #[must_use]
    pub fn credential(&self, provider: &NamedProvider) -> Option<(CredentialSource, CredentialOrigin)> {
        let name = &*provider.name;
        let (key, token) = (self.known.api_key(name), self.known.auth_token(name));
        let set = |by_environment: bool| {
            let counts = |set: &&SetValue<Secret>| (set.rank == ValueRank::Environment) == by_environment;
            let origin = |set: &SetValue<Secret>| CredentialOrigin::Set(set.origin.clone());
            let key = key.filter(counts).map(|set| (CredentialSource::Key(set.value.clone()), origin(set)));
            key.or_else(|| {
                token.filter(counts).map(|set| (CredentialSource::Bearer(set.value.clone()), origin(set)))
            })
        };
        if let Some(given) = self.given.api_key.as_ref().filter(|_| !is_managed(key)) {
            return Some((CredentialSource::Key(given.clone()), CredentialOrigin::Given));
        }
        let in_store = || {
            let source = match self.stored.get(name)? {
                Credential::ApiKey(_) => CredentialSource::StoredKey,
                Credential::OAuth(tokens) => CredentialSource::SignIn { account: tokens.account.clone() },
            };
            Some((source, CredentialOrigin::Stored))
        };
        set(false).or_else(in_store).or_else(|| set(true))
    }

    /// Returns the configured endpoint, or that of another provider to which the requested model belongs.
    fn configured_for_model(&self) -> Result<Option<SelectedEndpoint>, SelectError> {
        let configured = self.configured();
        let Some(RequestedName { name, origin }) = &self.model else { return configured };
        if self.keeps_provider || self.given.base_url.is_some() {
            return configured;
        }
        let configured = match configured {
            Err(error) if !error.lacks_credential() => return Err(error),
            configured => configured,
        };
        let current = configured.as_ref().ok().and_then(Option::as_ref);
        let provider = current.map(|endpoint| &*endpoint.provider.name);
        let Some(other) = self.known.other_provider(provider, name) else { return configured };
        let provider = self.known.find(&other.name)?;
        let reason = SelectionReason::Model { model: name.clone(), origin: origin.clone() };
        match self.resolve_endpoint(provider, reason) {
            Ok(endpoint) => Ok(Some(endpoint)),
            // At a person's own address, an id may contain a slash.
            Err(_) if !other.is_explicit || current.is_some_and(|endpoint| !endpoint.is_usual()) => {
                configured
            }
            Err(error) => Err(SelectError::Model { model: name.clone(), source: Box::new(error) }),
        }
    }

    /// Returns the first provider for which a credential or an address is set.
    fn with_setting(&self, by_environment: bool) -> Option<(String, SelectionReason)> {
        let names = self.known.names();
        for setting in ["api_key", "auth_token", "base_url"] {
            for name in &names {
                let set = match setting {
                    "api_key" => self.known.api_key(name).map(rank_and_origin),
                    "auth_token" => self.known.auth_token(name).map(rank_and_origin),
                    _ => self.known.base_url(name).map(rank_and_origin),
                };
                let Some((rank, origin)) = set else { continue };
                let counts = (rank == ValueRank::Environment) == by_environment;
                if !counts || self.lacks_address(name) {
                    continue;
                }
                return Some((name.clone(), SelectionReason::Set { setting, origin: origin.to_owned() }));
            }
        }
        None
    }

    /// Returns the first provider for which a credential is stored.
    fn with_credential(&self) -> Option<(String, SelectionReason)> {
        let is_usable = |name: &String| self.stored.contains_key(name) && !self.lacks_address(name);
        let name = self.known.names().into_iter().find(is_usable)?;
        Some((name, SelectionReason::Stored))
    }

    /// Whether no base URL is known, so that a key alone is useless.
    fn lacks_address(&self, name: &str) -> bool {
        self.known.map.vendors().named(name).is_some_and(|vendor| vendor.base_url.is_none())
            && self.given.base_url.is_none()
            && self.known.base_url(name).is_none()
    }

    fn resolve_endpoint(
        &self,
        provider: NamedProvider,
        reason: SelectionReason,
    ) -> Result<SelectedEndpoint, SelectError> {
        let base_url = self.given_or_set_url(&provider.name);
        let Some(url) = base_url.or(provider.usual_url()) else {
            return Err(SelectError::NoAddress { provider: provider.name });
        };
        let credential = self.credential(&provider).map(|(source, _)| source);
        if credential.is_none() && !provider.is_open() && (base_url.is_none() || provider.is_sign_in_only()) {
            return Err(match provider.key_variable() {
                None => SelectError::NotSignedIn { provider: provider.name },
                Some(variable) => SelectError::NoKey { provider: provider.name, variable },
            });
        }
        Ok(SelectedEndpoint { base_url: url.to_owned(), provider, credential, reason })
    }

    /// Returns the address for this run, unless managed settings override it.
    fn given_or_set_url(&self, name: &str) -> Option<&str> {
        let set = self.known.base_url(name);
        let url = set.map(|set| &*set.value);
        if is_managed(set) { url } else { self.given.base_url.as_deref().or(url) }
    }
}

fn rank_and_origin<T>(set: &SetValue<T>) -> (ValueRank, &str) {
    (set.rank, &set.origin)
}

fn is_managed<T>(set: Option<&SetValue<T>>) -> bool {
    set.is_some_and(|set| set.rank == ValueRank::Managed)
}

/// Returns the first local model server on which `probe` finds a model; use [`probe_local_server`] to check
/// the port.
///
/// # Errors
/// [`SelectError::NothingConfigured`] when none has a model.
pub async fn first_local_server(
    vendors: &Vendors,
    probe: impl AsyncFn(Vendor, u16) -> LocalServerState,
) -> Result<SelectedEndpoint, SelectError> {
    let mut servers = Vec::new();
    for vendor in vendors.iter() {
        let Access::Local(port) = vendor.access else { continue };
        let state = probe(*vendor, port).await;
        if state == LocalServerState::Ready {
            return Ok(SelectedEndpoint {
                provider: NamedProvider::from(*vendor),
                base_url: vendor.base_url.unwrap_or_default().to_owned(),
                credential: None,
                reason: SelectionReason::LocalServer { port },
            });
        }
        servers.push(LocalServer { name: vendor.name, port, state });
    }
    let services = vendors.iter().filter(|vendor| vendor.default_model.is_some()).filter_map(key_variable);
    Err(SelectError::NothingConfigured { services: services.collect(), servers })
}

/// Returns the environment variable for a service's key, with the service's name.
fn key_variable(vendor: &Vendor) -> Option<(&'static str, &'static str)> {
    match vendor.access {
        Access::Key(variables) => variables.first().map(|variable| (vendor.name, *variable)),
        Access::SignIn | Access::Local(_) | Access::Open => None,
    }
}
