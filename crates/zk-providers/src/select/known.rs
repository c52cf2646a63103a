use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_auth::Secret;
use zk_core::service::Provider;

use super::error::SelectError;
use super::provider_map::ProviderMap;
use crate::catalogue::vendors::{Access, Vendor, VendorDialect};

/// Vendor that a provider of a person's own is like, unless the settings name another.
const DEFAULT_VENDOR: &str = Vendor::COMPATIBLE;

/// Vendor of a ready-made provider, which needs no address and no key.
const PREBUILT_VENDOR: Vendor = Vendor {
    name: "",
    base_url: Some(""),
    access: Access::Open,
    dialect: VendorDialect::Chat(DEFAULT_VENDOR),
    default_model: None,
};

/// Rank of a value among a provider's values: what a program is told for one run stands between the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueRank {
    /// A variable of the environment, which a stored credential outranks.
    Environment,
    /// Settings of a person.
    Settings,
    /// Settings of the machine, which nothing outranks.
    Managed,
}

/// Value of a setting, with its origin.
#[derive(Clone, Debug)]
pub struct SetValue<T> {
    /// The value.
    pub value: T,
    /// Rank of its origin.
    pub rank: ValueRank,
    /// Origin in words: a file, a variable.
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
    /// Token that is sent as a bearer's, written as a key is.
    pub auth_token: Option<SetValue<Secret>>,
}

/// Providers that can be named, and what is set for each.
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
    /// Providers that the program knows by itself.
    pub map: ProviderMap,
    /// Settings by the provider's name; a name with a vendor or a base URL is a provider of its own.
    pub settings: BTreeMap<String, ProviderSettings>,
}

impl KnownProviders {
    /// The names of all providers: those of the program, then those of the settings alone.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names = self.map.names();
        let own: Vec<String> = self.settings.keys().filter(|name| !names.contains(name)).cloned().collect();
        names.extend(own);
        names
    }

    /// The provider called `name`.
    ///
    /// # Errors
    /// [`SelectError::UnknownProvider`], and [`SelectError::UnknownVendor`] where the settings say what it is like.
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

/// Provider with its name: a vendor, one that is like a vendor, or one that was given ready made.
#[derive(Clone)]
pub struct NamedProvider {
    /// Name it is chosen by.
    pub name: String,
    /// Vendor it is, or is like.
    pub vendor: Vendor,
    /// The provider itself, where the program was given it.
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
    /// Whether there is no key for it, only a sign-in.
    #[must_use]
    pub fn is_sign_in_only(&self) -> bool {
        match self.vendor.access {
            Access::SignIn => true,
            Access::Key(_) | Access::Local(_) | Access::Open => false,
        }
    }

    /// Whether it is used without a key.
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

    /// Whether it is the vendor itself, so that the vendor's address and variables are its own.
    fn is_vendor(&self) -> bool {
        self.name == self.vendor.name
    }
}
