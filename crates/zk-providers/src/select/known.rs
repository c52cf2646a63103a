use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_auth::Secret;
use zk_core::service::Provider;

use super::error::SelectError;
use super::provider_map::ProviderMap;
use crate::catalogue::vendors::{Access, Vendor, VendorDialect};

/// Vendor that a custom provider is like unless its settings name another.
const DEFAULT_VENDOR: &str = Vendor::COMPATIBLE;

/// Vendor of a prebuilt provider, which needs no address and no key.
const PREBUILT_VENDOR: Vendor = Vendor {
    name: "",
    base_url: Some(""),
    access: Access::Open,
    dialect: VendorDialect::Chat(DEFAULT_VENDOR),
    default_model: None,
};

/// Rank of a setting's value. Values for one run rank between the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueRank {
    /// An environment variable, which a stored credential overrides.
    Environment,
    /// A person's settings.
    Settings,
    /// Managed settings of the machine, which nothing overrides.
    Managed,
}

/// Value of a setting with its origin.
#[derive(Clone, Debug)]
pub struct SetValue<T> {
    /// Value of the setting.
    pub value: T,
    /// Rank of its origin.
    pub rank: ValueRank,
    /// Origin as text: a file, a variable.
    pub origin: String,
}

/// Settings of one provider.
#[derive(Clone, Debug, Default)]
pub struct ProviderSettings {
    /// Name of the vendor that the provider is like.
    pub like: Option<String>,
    /// Base URL of its API.
    pub base_url: Option<SetValue<String>>,
    /// Key: the text itself, `env:NAME` or `!command`.
    pub api_key: Option<SetValue<Secret>>,
    /// Bearer token, in the same forms as a key.
    pub auth_token: Option<SetValue<Secret>>,
}

/// Providers that can be selected by name, with their settings.
///
/// ```
/// use zk_providers::select::{KnownProviders, ProviderSettings};
///
/// let mut known = KnownProviders::default();
/// let like = ProviderSettings { like: Some("vllm".to_owned()), ..ProviderSettings::default() };
/// known.settings.insert("lab".to_owned(), like);
/// assert_eq!(known.find("lab")?.vendor.name, "vllm");
/// assert!(known.find("nobody").is_err());
/// # Ok::<(), zk_providers::select::SelectError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct KnownProviders {
    /// Built-in and prebuilt providers of the program.
    pub map: ProviderMap,
    /// Settings by provider name; a name with a vendor or a base URL defines a custom provider.
    pub settings: BTreeMap<String, ProviderSettings>,
}

impl KnownProviders {
    /// Returns the names of all providers: those of the program, then those defined by settings.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names = self.map.names();
        let own: Vec<String> = self.settings.keys().filter(|name| !names.contains(name)).cloned().collect();
        names.extend(own);
        names
    }

    /// Returns the provider called `name`.
    ///
    /// # Errors
    /// [`SelectError::UnknownProvider`], or [`SelectError::UnknownVendor`] when its settings name one.
    pub fn find(&self, name: &str) -> Result<NamedProvider, SelectError> {
        if let Some(provider) = self.map.prebuilt(name) {
            return Ok(NamedProvider {
                name: name.to_owned(),
                vendor: PREBUILT_VENDOR,
                prebuilt: Some(provider),
            });
        }
        let vendors = self.map.vendors();
        if let Some(vendor) = vendors.named(name) {
            return Ok(NamedProvider::from(*vendor));
        }
        let settings = self.settings.get(name);
        let like = settings.and_then(|settings| settings.like.as_deref());
        if like.is_none() && settings.is_none_or(|settings| settings.base_url.is_none()) {
            let mut known = self.names();
            known.retain(|known| known != name);
            return Err(SelectError::UnknownProvider { name: name.to_owned(), known });
        }
        let like = like.unwrap_or(DEFAULT_VENDOR);
        let vendor = vendors.named(like).copied().ok_or_else(|| SelectError::UnknownVendor {
            provider: name.to_owned(),
            vendor: like.to_owned(),
            known: vendors.iter().map(|vendor| vendor.name).collect(),
        })?;
        Ok(NamedProvider { name: name.to_owned(), vendor, prebuilt: None })
    }

    pub(super) fn base_url(&self, name: &str) -> Option<&SetValue<String>> {
        self.settings.get(name)?.base_url.as_ref()
    }

    pub(super) fn api_key(&self, name: &str) -> Option<&SetValue<Secret>> {
        self.settings.get(name)?.api_key.as_ref()
    }

    pub(super) fn auth_token(&self, name: &str) -> Option<&SetValue<Secret>> {
        self.settings.get(name)?.auth_token.as_ref()
    }
}

/// A provider with its name: a vendor, a custom provider like a vendor, or a prebuilt provider.
#[derive(Clone)]
pub struct NamedProvider {
    /// Name by which the provider is selected.
    pub name: String,
    /// Vendor of the provider, or the vendor that a custom provider is like.
    pub vendor: Vendor,
    /// The provider object, if it is prebuilt.
    pub prebuilt: Option<Arc<dyn Provider>>,
}

impl From<Vendor> for NamedProvider {
    fn from(vendor: Vendor) -> Self {
        Self { name: vendor.name.to_owned(), vendor, prebuilt: None }
    }
}

impl fmt::Debug for NamedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedProvider").field("name", &self.name).finish_non_exhaustive()
    }
}

impl NamedProvider {
    /// Whether the provider accepts only a sign-in, no keys.
    #[must_use]
    pub fn is_sign_in_only(&self) -> bool {
        match self.vendor.access {
            Access::SignIn => true,
            Access::Key(_) | Access::Local(_) | Access::Open => false,
        }
    }

    /// Whether the provider needs no key.
    pub(super) fn is_open(&self) -> bool {
        match self.vendor.access {
            Access::Local(_) | Access::Open => true,
            Access::Key(_) | Access::SignIn => false,
        }
    }

    pub(super) fn usual_url(&self) -> Option<&'static str> {
        self.vendor.base_url.filter(|_| self.is_vendor() || self.prebuilt.is_some())
    }

    pub(super) fn key_variable(&self) -> Option<&'static str> {
        match self.vendor.access {
            Access::Key(variables) if self.is_vendor() => variables.first().copied(),
            Access::Key(_) | Access::SignIn | Access::Local(_) | Access::Open => None,
        }
    }

    /// Whether it is the vendor itself, so that the vendor's address and variables apply.
    fn is_vendor(&self) -> bool {
        self.name == self.vendor.name
    }
}
