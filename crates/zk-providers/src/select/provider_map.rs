use std::fmt;
use std::sync::Arc;

use zk_core::service::Provider;

use crate::catalogue::vendors::{Vendor, Vendors};

/// Providers that a program can select by name: vendors and prebuilt providers.
#[derive(Clone, Default)]
pub struct ProviderMap {
    vendors: Vendors,
    prebuilt: Vec<Arc<dyn Provider>>,
}

impl ProviderMap {
    /// Adds a vendor, replacing one of the same name.
    pub fn add_vendor(&mut self, vendor: Vendor) {
        self.vendors = std::mem::take(&mut self.vendors).with(vendor);
    }

    /// Adds a prebuilt provider, which needs no address and no key.
    pub fn add_provider(&mut self, provider: Arc<dyn Provider>) {
        self.prebuilt.push(provider);
    }

    /// Returns the vendors.
    #[must_use]
    pub fn vendors(&self) -> &Vendors {
        &self.vendors
    }

    /// Returns the prebuilt provider called `name`, the last one added if there are several.
    #[must_use]
    pub fn prebuilt(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.prebuilt.iter().rfind(|provider| provider.name() == name).cloned()
    }

    /// Returns the names of all vendors, then of the prebuilt providers.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.vendors.iter().map(|vendor| vendor.name.to_owned()).collect();
        for provider in &self.prebuilt {
            if !names.iter().any(|name| name == provider.name()) {
                names.push(provider.name().to_owned());
            }
        }
        names
    }
}

impl fmt::Debug for ProviderMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderMap").field("names", &self.names()).finish_non_exhaustive()
    }
}
