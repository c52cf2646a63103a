//! Additions of a team's own program to zk.

use std::fmt;
use std::sync::Arc;

use zk_core::kernel::Plugin;
use zk_core::service::Provider;
use zk_providers::{Vendor, Vendors};

/// The vendors and providers that can be named, and the plugins beside zk's own.
#[derive(Clone, Default)]
pub(crate) struct Additions {
    pub(crate) vendors: Vendors,
    providers: Vec<Arc<dyn Provider>>,
    pub(crate) plugins: Vec<Arc<dyn Plugin>>,
}

impl fmt::Debug for Additions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Additions").field("names", &self.names()).finish_non_exhaustive()
    }
}

impl Additions {
    pub(crate) fn add_vendor(&mut self, vendor: Vendor) {
        self.vendors = std::mem::take(&mut self.vendors).with(vendor);
    }

    pub(crate) fn add_provider(&mut self, provider: Arc<dyn Provider>) {
        self.providers.push(provider);
    }

    pub(crate) fn add_plugin(&mut self, plugin: Arc<dyn Plugin>) {
        self.plugins.push(plugin);
    }

    /// The provider called `name` that the program was given, the last one if there are several.
    pub(crate) fn provider(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.providers.iter().rfind(|provider| provider.name() == name).cloned()
    }

    /// The names of all vendors, then those of the providers.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.vendors.iter().map(|vendor| vendor.name.to_owned()).collect();
        for provider in &self.providers {
            if !names.iter().any(|name| name == provider.name()) {
                names.push(provider.name().to_owned());
            }
        }
        names
    }
}
