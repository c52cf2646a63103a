//! Registry of the vendors that a program knows.

use std::sync::Arc;

use zk_core::model::Model;
use zk_core::service::Provider;

use super::{VENDORS, Vendor};
use crate::catalogue::models::resolve_model;
use crate::wire::connection::Connection;
use crate::wire::endpoint::SetupError;

/// Vendors that a program can select by name: those of [`VENDORS`] and of other crates.
///
/// ```
/// use zk_providers::{Access, Vendor, VendorDialect, Vendors};
///
/// let lab = Vendor {
///     name: "lab",
///     base_url: Some("http://127.0.0.1:9000/v1"),
///     access: Access::Key(&["LAB_API_KEY"]),
///     dialect: VendorDialect::Chat("openai_compat"),
///     default_model: Some("lab-1"),
/// };
/// let vendors = Vendors::default().with(lab);
/// assert!(vendors.named("lab").is_some() && vendors.named("groq").is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Vendors(Arc<[Vendor]>);

impl Default for Vendors {
    fn default() -> Self {
        Self(VENDORS.into())
    }
}

impl Vendors {
    /// Adds `vendor`, replacing one of the same name.
    #[must_use]
    pub fn with(self, vendor: Vendor) -> Self {
        let others = self.iter().filter(|known| known.name != vendor.name).copied();
        Self(others.chain([vendor]).collect())
    }

    /// Returns the vendor called `name`.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Vendor> {
        self.iter().find(|vendor| vendor.name == name)
    }

    /// Creates the provider for a model: `provider/model`, the id of a model in the table, or a family such
    /// as `opus`, which stands for its newest model. `set_up` adds a key or another address to the usual
    /// connection.
    ///
    /// ```
    /// use zk_core::service::Provider;
    /// use zk_providers::Vendors;
    ///
    /// let (provider, model) = Vendors::default().open("groq/some-model", |at| at.key("gsk_…"))?;
    /// assert_eq!((provider.name(), &*model.id), ("groq", "some-model"));
    /// # Ok::<(), zk_providers::SetupError>(())
    /// ```
    ///
    /// # Errors
    /// [`SetupError`] when the name does not tell the provider, and the errors of [`Vendor::provider`].
    pub fn open(
        &self,
        model: &str,
        set_up: impl FnOnce(Connection) -> Connection,
    ) -> Result<(Arc<dyn Provider>, Model), SetupError> {
        let names: Vec<&str> = self.iter().map(|vendor| vendor.name).collect();
        let found = resolve_model(model, None, &names);
        let vendor = found
            .provider
            .as_deref()
            .and_then(|name| self.named(name))
            .ok_or_else(|| SetupError::Model { name: model.to_owned(), known: names.join(", ") })?;
        let provider = vendor.provider(set_up(vendor.connection()))?;
        let model = provider.model(&found.id);
        Ok((provider, model))
    }

    /// Iterates over the vendors; if several match, the first one is used.
    pub fn iter(&self) -> impl Iterator<Item = &Vendor> {
        self.0.iter()
    }
}
